// `longhaul calibrate`: measures this machine for the planner (docs/calibrate.md).
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddCalibrateCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
