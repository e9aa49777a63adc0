// `longhaul kube operate`: the operator of LonghaulJobs.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddOperateCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
