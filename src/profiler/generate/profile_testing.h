// Profiles a generated job, for tests.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "profiler/across/profiled_job.h"
#include "profiler/generate/job_generator.h"
#include "profiler/read/kineto_reader.h"

namespace longhaul::profiler {

// Profiles all ranks, after `change` of each one's file.
inline ProfiledJob Profile(const GeneratorOptions& options,
                           const std::function<void(int rank, std::string* json)>& change = {}) {
  const GeneratedJob made = Generate(options);
  std::vector<RankSummary> ranks;
  for (int rank = 0; rank < static_cast<int>(made.kernels.size()); ++rank) {
    std::string json = KinetoJson(made, options, rank);
    if (change) change(rank, &json);
    const auto source = OpenBytes(json);
    ranks.push_back(Summarize(ReadKineto(*source, "rank-" + std::to_string(rank)).value()));
  }
  JobOptions job;
  job.ranks_per_host = options.ranks_per_host;
  return AssembleJob(std::move(ranks), job).value();
}

// The options of a job on hosts whose clocks differ.
inline GeneratorOptions Skewed() {
  GeneratorOptions options;
  options.skew_us = 12'345;
  options.drift_ppm = 8;
  return options;
}

}  // namespace longhaul::profiler
