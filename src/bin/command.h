// Shared code of the files of the subcommands: how a command registers on the command line, and
// what its exit codes mean.
//
// Each subcommand has its own file, *_command.{h,cc}, with
//   void AddXCommand(CLI::App& app, Action& action);
// which declares its options and, when the user calls it, sets `action`. main runs the action after
// parsing the whole line, so a wrong option is rejected before any work begins.
#pragma once

#include <functional>

#include "base/status.h"

namespace longhaul::bin {

constexpr int kExitOk = 0;
constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

using Action = std::function<int()>;  // returns the process's exit code

// The groups of `longhaul --help`, in its order.
constexpr const char* kGroupRun = "Train";
constexpr const char* kGroupClient = "Ask a controller";
constexpr const char* kGroupService = "Services";
constexpr const char* kGroupTools = "Tools";

// Prints "longhaul: MESSAGE" to standard error and returns kExitFailure.
int Fail(const Status& status);

}  // namespace longhaul::bin
