// `longhaul profile`: from the traces of all ranks to what to do first.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddProfileCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
