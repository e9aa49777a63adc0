// `longhaul plan`: predicts what a training run would take, without a GPU.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddPlanCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
