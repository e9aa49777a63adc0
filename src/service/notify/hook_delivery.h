// Sends one message to one hook: runs its command, or posts it to its web address. Blocks.
#pragma once

#include <string>

#include "base/status.h"
#include "io/process/command.h"
#include "service/notify/hook_message.h"
#include "spec/notify/notify_file.h"

namespace longhaul::service {

struct HookOutcome {
  Status status;
  bool worth_a_retry = false;
};

// Gives the message to the command on its standard input, with LONGHAUL_EVENT, LONGHAUL_JOB,
// LONGHAUL_RUN_DIRECTORY and LONGHAUL_TEXT in its environment. A command that fails is an error
// with the last line of its standard error. It is killed with its process group at the time-out.
HookOutcome RunHookCommand(const spec::HookSpec& hook, const HookMessage& message,
                           const std::string& run_directory, const io::CommandDeadline& deadline,
                           io::CommandProcesses& processes);

// Posts the message as application/json. Any answer of 2xx is a success. Redirections are not
// followed. Errors have no part of the address but its host.
HookOutcome PostToWebhook(const spec::HookSpec& hook, const HookMessage& message,
                          const io::CommandDeadline& deadline);

}  // namespace longhaul::service
