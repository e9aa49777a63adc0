// `longhaul kube schedule`: schedules the pods of a Kubernetes cluster until SIGTERM or SIGINT.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddScheduleCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
