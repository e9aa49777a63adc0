// `longhaul checkpoint ls|show|verify|diff|convert|prune|plan`.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

void AddCheckpointCommand(CLI::App& app, Action& action);

}  // namespace longhaul::bin
