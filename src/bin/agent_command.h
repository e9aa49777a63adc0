// `longhaul agent`: the service of one node, which runs its workers.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddAgentCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
