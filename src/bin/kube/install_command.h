// `longhaul kube install` and `longhaul kube uninstall`.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddInstallCommands(CLI::App& app, Action& action);

}  // namespace longhaul::bin
