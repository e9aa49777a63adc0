// `longhaul controller`: the service that tracks all jobs and nodes and schedules the jobs on the
// nodes.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddControllerCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
