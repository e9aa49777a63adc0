// What the files of the subcommands share: how a command hooks into the command line, and what its
// exit code means.
//
// Each subcommand lies in a file of its own, *_command.{h,cc}, with
//   void AddXCommand(CLI::App& app, Action& action);
// which declares its options and, when it is the one called, sets `action`. main runs it once the
// whole line has been parsed, so nothing happens before a wrong option has been refused.
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
