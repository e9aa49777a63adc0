#include "service/agent/check/check_command.h"

#include <unistd.h>

#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "service/agent/check/device_lines.h"

namespace longhaul::service {
namespace {

constexpr size_t kMostOutput = kMostDeviceLines * kLongestDeviceLine;
constexpr const char* kVariable = "LONGHAUL_CHECK_COMMAND";
// With these codes a shell reports that it could not run the command: a mistake, not a bad device.
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

// What the command has printed, also where it has failed: a failed measurement names the device.
void TakeOutput(const io::CommandOutcome& outcome, proto::DeviceTestResult& result) {
  auto lines = ParseDeviceLines(outcome.output);
  if (outcome.cut) {
    result.set_mistake("the check command printed more than " +
                       WithThousands(static_cast<int64_t>(kMostOutput)) + " bytes");
  } else if (!lines.ok()) {
    result.set_mistake("the output of the check command: " + lines.status().message());
  } else {
    for (proto::DeviceMeasurement& line : *lines) *result.add_measurements() = std::move(line);
  }
}

}  // namespace

std::string CheckCommandOfEnvironment() {
  const auto environment = io::CurrentEnvironment();
  const auto found = environment.find(kVariable);
  return found == environment.end() ? "" : found->second;
}

std::optional<proto::DeviceTestResult> RunCheckCommand(const CheckCommand& command,
                                                       const io::CommandDeadline& deadline) {
  io::CommandOptions options;
  options.argv = {"/bin/sh", "-c", command.command};
  options.environment = io::CurrentEnvironment();
  options.limit = command.limit;
  options.most_output = kMostOutput;
  options.mark = "LONGHAUL_CHECK_RUN=" + std::to_string(::getpid()) + "-" +
                 std::to_string(ToNanoseconds(io::MonotonicNow()));
  io::CommandProcesses processes;
  const Result<io::CommandOutcome> outcome = io::RunCommand(options, deadline, processes);
  proto::DeviceTestResult result;
  if (!outcome.ok()) {
    result.set_mistake("the check command: " + outcome.status().message());
    return result;
  }
  if (!outcome->ended) {
    if (deadline.at() <= io::MonotonicNow()) return std::nullopt;
    result.set_failure("the check command did not end within " + ToString(command.limit) +
                       " and was killed");
    return result;
  }
  const int code = outcome->status.exit_code;
  if (code == kCannotExecute || code == kNotFound) {
    result.set_mistake("the check command cannot be run: " + FailureText(*outcome));
    return result;
  }
  TakeOutput(*outcome, result);
  if (!outcome->succeeded()) {
    result.clear_mistake();  // a command that fails may print anything
    result.set_failure("the check command failed: " + FailureText(*outcome));
  }
  return result;
}

}  // namespace longhaul::service
