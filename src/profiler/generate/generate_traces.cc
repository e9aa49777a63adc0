// Writes the traces of a generated job, for benchmarks and to try the profiler on:
//
//   profiler_generate_traces FOLDER TENSOR DATA PIPELINE LAYERS MICRO_BATCHES STEPS
//       [SLOW_RANK [CHUNKS [SCHEDULE]]]
//
// The folder must exist. Hosts of eight ranks, with skewed clocks.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "profiler/generate/job_generator.h"

using namespace longhaul::profiler;

int main(int argc, char** argv) {
  if (argc < 8) {
    std::fprintf(stderr,
                 "usage: %s FOLDER TENSOR DATA PIPELINE LAYERS MICRO_BATCHES STEPS "
                 "[SLOW_RANK [CHUNKS [SCHEDULE]]]\n",
                 argv[0]);
    return 2;
  }
  const auto number = [argv](int i) { return std::atoi(argv[i]); };
  GeneratorOptions options;
  options.tensor = number(2);
  options.data = number(3);
  options.pipeline = number(4);
  options.layers = number(5);
  options.micro_batches = number(6);
  options.steps = number(7);
  options.slow_rank = argc > 8 ? number(8) : -1;
  options.chunks = argc > 9 ? number(9) : 1;
  const char* usual = options.chunks > 1 ? "interleaved" : "1f1b";
  const std::optional<Schedule> schedule = ParseSchedule(argc > 10 ? argv[10] : usual);
  if (!schedule.has_value() ||
      !IsDefined({*schedule, options.pipeline, options.micro_batches, options.chunks})) {
    std::fprintf(stderr, "no such schedule, or not of so many stages, micro-batches and chunks\n");
    return 2;
  }
  options.schedule = *schedule;
  options.ranks_per_host = 8;
  options.skew_us = 12'345;
  options.drift_ppm = 5;
  const GeneratedJob job = Generate(options);
  for (int rank = 0; rank < static_cast<int>(job.kernels.size()); ++rank) {
    const std::string path = std::string(argv[1]) + "/rank-" + std::to_string(rank) + ".json";
    std::ofstream file(path);
    file << KinetoJson(job, options, rank);
    if (!file.flush()) {
      std::fprintf(stderr, "cannot write %s\n", path.c_str());
      return 1;
    }
  }
  std::printf("simulated: %.6f s, %zu ranks\n", job.seconds, job.kernels.size());
  return 0;
}
