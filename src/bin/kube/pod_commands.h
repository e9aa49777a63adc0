// The commands that run in the pods of a LonghaulJob. The operator writes them into the pods; a
// person does not call them.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddPodCommands(CLI::App& app, Action& action);

}  // namespace longhaul::bin
