// The options of a check command: of `longhaul agent` and `longhaul check --local`.
#pragma once

#include <CLI/CLI.hpp>
#include <utility>

#include "service/agent/check/check_command.h"

namespace longhaul::bin {

// Requires that `check` outlives the command. Returns --check-command and --check-command-limit.
std::pair<CLI::Option*, CLI::Option*> AddCheckCommandOptions(CLI::App& command,
                                                             service::CheckCommand& check);

}  // namespace longhaul::bin
