// `longhaul kube node-health`: cordons unhealthy nodes.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddNodeHealthCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
