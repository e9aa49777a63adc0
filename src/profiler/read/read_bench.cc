// Reading traces: bytes of JSON a second of CPU time, and bytes of memory a byte of JSON.
//
//   profiler_read_bench FILE...   each file in full, once to warm up and then timed
#include <cstdio>
#include <string>

#include "io/clock.h"
#include "profiler/read/byte_source.h"
#include "profiler/read/kineto_reader.h"

using namespace longhaul;
using namespace longhaul::profiler;

namespace {

int Measure(const std::string& path) {
  double best_s = 1e9;
  Result<RankTrace> trace = InvalidArgument("not read");
  uint64_t rounds = 1;
  for (uint64_t round = 0; round <= rounds; ++round) {
    auto source = OpenFile(path);
    if (!source.ok()) {
      std::fprintf(stderr, "%s\n", source.status().message().c_str());
      return 1;
    }
    const Instant begin = io::ThreadCpuTime();
    trace = ReadKineto(**source, path);
    const double seconds = ToSeconds(io::ThreadCpuTime() - begin);
    if (!trace.ok()) {
      std::fprintf(stderr, "%s\n", trace.status().message().c_str());
      return 1;
    }
    if (seconds < best_s) best_s = seconds;
    rounds = seconds < 1 ? 5 : 1;
  }
  const double megabytes = static_cast<double>(trace->report.json_bytes) / 1e6;
  std::printf("%-40s %9.1f MB of JSON  %8.1f MB/s a core  %9zu events  memory %.3f of the JSON\n",
              path.substr(path.rfind('/') + 1).c_str(), megabytes, megabytes / best_s,
              trace->events.size(), static_cast<double>(trace->memory_bytes()) / megabytes / 1e6);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int failures = 0;
  for (int i = 1; i < argc; ++i) failures += Measure(argv[i]);
  return failures > 0 ? 1 : 0;
}
