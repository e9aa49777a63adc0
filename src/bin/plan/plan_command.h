// `longhaul plan`: what a training would take, before anybody owns a GPU.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddPlanCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
