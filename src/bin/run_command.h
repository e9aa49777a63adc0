// `longhaul run`: train on a local cluster, watch, report.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bin/command.h"

namespace longhaul::bin {

// Declares `run`. `words` are the arguments after it on the command line; they are read here and
// not by `app`, because they may contain a whole other command.
void AddRunCommand(CLI::App& app, Action& action, const std::vector<std::string>& words);

}  // namespace longhaul::bin
