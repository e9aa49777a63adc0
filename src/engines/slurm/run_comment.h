// The comments by which the Slurm jobs of a run are found: "longhaul ROLE RUN_DIR". Slurm keeps
// them, so that no file has to agree with it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engines/slurm/slurm_text.h"

namespace longhaul::engines::slurm {

inline constexpr std::string_view kFirstRole = "first";
inline constexpr std::string_view kGrowthRole = "growth";

// What squeue's --format is for ParseRunJob. The comment comes last, since it may contain a '|'.
inline constexpr const char* kRunJobFormat = "%i|%T|%N|%r|%D|%k";

// A Slurm job of a run.
struct RunJob {
  JobNow now;
  uint32_t nodes = 0;  // that it has, or waits for; 0: unknown
  std::string role;    // kFirstRole, "part-2" or kGrowthRole
  std::string run_directory;
};

std::string RunComment(const std::string& role, const std::string& run_directory);

// Reads a line of squeue; none of a job that is no run's, or that has ended.
std::optional<RunJob> ParseRunJob(std::string_view line);

}  // namespace longhaul::engines::slurm
