// `longhaul run`: train on a local cluster, watch, report.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bin/command.h"
#include "frontend/run_session.h"

namespace longhaul::bin {

// Declares `run`. `words` are the arguments after it on the command line; they are read here and
// not by `app`, because they may contain a whole other command.
void AddRunCommand(CLI::App& app, Action& action, const std::vector<std::string>& words);

// Reads the words after `run`. Returns the process's exit code when there is nothing to run: after
// --help, --dry-run, or a mistake, which it prints.
std::optional<int> ReadRunWords(const std::vector<std::string>& words,
                                frontend::RunOptions& options);

}  // namespace longhaul::bin
