// `longhaul controller`: the service that knows all jobs and nodes and decides what happens to
// them.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddControllerCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
