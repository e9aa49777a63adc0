#include <string>
#include <utility>

#include "io/process/command.h"
#include "service/notify/hook_delivery.h"

namespace longhaul::service {

HookOutcome RunHookCommand(const spec::HookSpec& hook, const HookMessage& message,
                           const std::string& run_directory, const io::CommandDeadline& deadline,
                           io::CommandProcesses& processes) {
  io::CommandOptions options;
  options.argv = hook.command;
  options.environment = io::CurrentEnvironment();
  options.environment["LONGHAUL_EVENT"] = std::string(NameOf(message.event));
  options.environment["LONGHAUL_JOB"] = message.job;
  options.environment["LONGHAUL_RUN_DIRECTORY"] = run_directory;
  options.environment["LONGHAUL_TEXT"] = message.text;
  options.input = message.json;
  options.limit = hook.timeout;
  const Result<io::CommandOutcome> outcome = io::RunCommand(options, deadline, processes);
  if (!outcome.ok()) return {outcome.status()};
  if (!outcome->ended) {
    return {
        DeadlineExceeded("it was killed because it did not end within " + ToString(hook.timeout))};
  }
  if (!outcome->succeeded()) return {Unavailable(FailureText(*outcome))};
  return {};
}

}  // namespace longhaul::service
