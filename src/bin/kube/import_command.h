// `longhaul kube import`: training jobs of other operators as LonghaulJobs.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddImportCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
