// `longhaul profile`: analyses the traces of all ranks and reports what to improve first.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddProfileCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
