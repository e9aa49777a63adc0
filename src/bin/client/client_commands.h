// The commands that use a running controller: submit, status, jobs, nodes, events, logs, stop.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddClientCommands(CLI::App& app, Action& action);

}  // namespace longhaul::bin
