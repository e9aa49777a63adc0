// `longhaul simulate`: the controller's and the agents' own code in virtual time, under faults.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddSimulateCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
