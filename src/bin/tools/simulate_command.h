// `longhaul simulate`: runs the code of the controller and the agents in virtual time, with faults.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddSimulateCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
