// What the programs of the command line share: `longhaul` and those that it becomes.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "bin/command.h"

namespace longhaul::bin {

// What the program does, the first line of its help.
inline constexpr const char* kSummary =
    "Plan, schedule and run large-model training jobs, and keep them running through failures.";

// Sets the version, the examples and the form of help texts. Call it before a command is added,
// because commands copy these settings.
void DescribeProgram(CLI::App& app);

// Adds the options --token-file and --ca-file of a command that connects to a controller. Requires
// that both texts outlive the command.
void AddCredentialOptions(CLI::App& command, std::string& token_file, std::string& ca_file);

// Parses the line and runs the action that it sets. Returns the process's exit code.
int ParseAndRun(CLI::App& app, const Action& action, int argc, const char* const* argv);

}  // namespace longhaul::bin
