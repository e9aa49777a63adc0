// `longhaul pipeline`: makes schedules of a pipeline, and proves that one is correct
// (docs/pipeline-schedules.md).
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddPipelineCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
