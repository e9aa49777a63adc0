// What Slurm's programs print, read. All formats are named explicitly in the calls
// (slurm_commands.h), since the defaults differ between sites and releases.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::engines::slurm {

// What squeue's --format is for ParseJobLine.
inline constexpr const char* kJobFormat = "%i|%T|%N|%r";

// A Slurm job as it is now.
struct JobNow {
  std::string id;                  // "17"
  std::string state;               // RUNNING, PENDING, COMPLETING, NODE_FAIL, ...
  std::vector<std::string> nodes;  // that it holds; none while it waits
  std::string reason;              // why it waits

  bool runs() const { return state == "RUNNING"; }
  // It will hold nodes later, or holds them.
  bool lives() const;
};

// Reads what `sbatch --parsable` prints: the id, and on a federation ";CLUSTER".
Result<std::string> ParseSubmitted(std::string_view text);

// Reads one line of `squeue --noheader --format kJobFormat`.
Result<JobNow> ParseJobLine(std::string_view line);

// A name that an agent may have (a-z, 0-9, '-', at most 63 bytes), made from a node's.
std::string AgentNameOf(std::string_view node);

}  // namespace longhaul::engines::slurm
