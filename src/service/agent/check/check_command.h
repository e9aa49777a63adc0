// Runs the command with which an agent tests the devices of its node (docs/node-check.md).
#pragma once

#include <optional>
#include <string>

#include "base/time.h"
#include "io/process/command.h"
#include "proto/check.pb.h"

namespace longhaul::service {

// A check before the start of a gang is given up after three minutes, and runs a command twice at
// most.
constexpr Duration kMostCheckCommandLimit = std::chrono::seconds(60);

struct CheckCommand {
  std::string command;  // of /bin/sh; empty: none
  Duration limit = kMostCheckCommandLimit;
};

// Returns LONGHAUL_CHECK_COMMAND, for agents that another program starts; empty if it is not set.
std::string CheckCommandOfEnvironment();

// Blocks, at most for the command's limit and the time to kill it. Returns nothing if the deadline
// passed before the command ended.
std::optional<proto::DeviceTestResult> RunCheckCommand(const CheckCommand& command,
                                                       const io::CommandDeadline& deadline);

}  // namespace longhaul::service
