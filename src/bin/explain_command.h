// `longhaul explain RUN`: what happened in the faults of a run, and what they cost.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddExplainCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
