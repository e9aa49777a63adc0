// Traces of generated jobs in files, for tests.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "profiler/across/profiled_job.h"
#include "profiler/generate/job_generator.h"
#include "profiler/report/read_job.h"

namespace longhaul::profiler {

// Writes the traces of a generated job to a separate folder.
class ReportTest : public testing::Test {
 protected:
  std::vector<std::string> Write(const GeneratorOptions& options, const std::string& prefix) {
    const GeneratedJob made = Generate(options);
    std::vector<std::string> paths;
    for (int rank = 0; rank < static_cast<int>(made.kernels.size()); ++rank) {
      paths.push_back(folder_ + "/" + prefix + "rank-" + std::to_string(rank) + ".json");
      std::ofstream(paths.back()) << KinetoJson(made, options, rank);
    }
    return paths;
  }

  ProfiledJob Load(const std::vector<std::string>& paths, unsigned threads = 2) {
    ReadJobOptions read;
    read.threads = threads;
    JobOptions options;
    options.ranks_per_host = 4;
    return AssembleJob(ReadJob(paths, read).value().ranks, options).value();
  }

  const TemporaryFolder temporary_{testing::TempDir()};
  const std::string& folder_ = temporary_.path();
};

// Eight ranks, of which one computes longer.
inline GeneratorOptions Slow() {
  GeneratorOptions options;
  options.slow_rank = 5;
  return options;
}

}  // namespace longhaul::profiler
