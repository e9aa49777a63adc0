// The words of a shell script's commands, without running anything.
//
// What training scripts are made of: comments, continued lines, quotes, NAME=value, arrays
// NAME=( ... ) and NAME+=( ... ), and $NAME, ${NAME}, ${NAME:-default}, ${NAME[@]} in words, sums
// and matmuls in $(( ... )). A variable that the script does not set, and what a command would
// print, stay as they stand, with their dollar. Leaves out all else of a shell: conditions, loops
// and functions are passed over as words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::planner::configs::internal {

struct ShellScript {
  std::vector<std::vector<std::string>> commands;
  std::vector<std::vector<std::string>> arrays;  // their words, in the order of the script
};

// Refuses a quote that does not end, and scripts that expand to more than 100,000 words or 4 MiB.
Result<ShellScript> ReadShell(std::string_view text, std::string_view source);

}  // namespace longhaul::planner::configs::internal
