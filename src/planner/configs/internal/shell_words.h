// The words of a shell script's commands, read without running any command.
//
// Supports what training scripts use: comments, continued lines, quotes, NAME=value, arrays NAME=(
// ... ) and NAME+=( ... ), and $NAME, ${NAME}, ${NAME:-default}, ${NAME[@]} in words, sums and
// products in $(( ... )). A variable that the script does not set, and a command substitution, stay
// unchanged, with their dollar sign. Leaves out the rest of a shell: conditions, loops and
// functions are read as plain words.
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

// Rejects a quote without an end, and scripts that expand to more than 100,000 words or 4 MiB.
Result<ShellScript> ReadShell(std::string_view text, std::string_view source);

}  // namespace longhaul::planner::configs::internal
