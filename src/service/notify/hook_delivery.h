// Sends one message to one hook: runs its command, or posts it to its web address. Blocks.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>

#include "base/status.h"
#include "base/time.h"
#include "service/notify/hook_message.h"
#include "spec/notify/notify_file.h"

namespace longhaul::service {

// The processes of hooks. Thread-safe.
class HookProcesses {
 public:
  // Starts a process with `start` and remembers it until End. No other call sees the time between.
  Result<pid_t> Start(const std::function<Result<pid_t>()>& start);
  // Reaps with `reap` and forgets the process.
  void End(pid_t pid, const std::function<void()>& reap);
  bool Contains(pid_t pid) const;

 private:
  mutable std::mutex mutex_;
  std::set<pid_t> pids_;
};

struct HookOutcome {
  Status status;
  bool worth_a_retry = false;
};

// What ends a delivery before its time-out: a monotonic instant, which another thread may move.
class HookDeadline {
 public:
  void MoveTo(Instant at) { at_ns_ = ToNanoseconds(at); }
  Instant at() const { return InstantFromNanoseconds(at_ns_); }

 private:
  std::atomic<int64_t> at_ns_ = INT64_MAX;
};

// Gives the message to the command on its standard input, with LONGHAUL_EVENT, LONGHAUL_JOB,
// LONGHAUL_RUN_DIRECTORY and LONGHAUL_TEXT in its environment. A command that fails is an error
// with the last line of its standard error. It is killed with its process group at the time-out.
HookOutcome RunHookCommand(const spec::HookSpec& hook, const HookMessage& message,
                           const std::string& run_directory, const HookDeadline& deadline,
                           HookProcesses& processes);

// Posts the message as application/json. Any answer of 2xx is a success. Redirections are not
// followed. Errors have no part of the address but its host.
HookOutcome PostToWebhook(const spec::HookSpec& hook, const HookMessage& message,
                          const HookDeadline& deadline);

}  // namespace longhaul::service
