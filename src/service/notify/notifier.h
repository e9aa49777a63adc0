// Sends the events of a run to its hooks, without ever making the run wait.
//
// Each hook has a thread and a bounded queue of its own, so a hook that hangs delays neither the
// run nor another hook. A command is tried once. A request to a web address is repeated twice,
// after 1 s and 2 s, if no answer came or the server was overloaded or broken (429, 5xx).
//
// Take, Owns and Finish may be called from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/time.h"
#include "proto/status.pb.h"
#include "service/notify/hook_delivery.h"
#include "service/notify/hook_message.h"
#include "service/notify/hook_queue.h"
#include "spec/notify/notify_file.h"

namespace longhaul::service {

struct HookResult {
  std::string name;
  uint64_t delivered = 0;
  uint64_t failed = 0;
  uint64_t dropped = 0;    // the queue was full, or the run ended first
  std::string last_error;  // empty: none
};

struct NotifierOptions {
  std::string run_directory;
  size_t queue_limit = 64;                         // for each hook
  Duration retry_pause = std::chrono::seconds(1);  // twice as long before the second retry
  // Called by a hook's thread at its first failure only, with one line. May be empty.
  std::function<void(const std::string& line)> on_first_failure;
};

class Notifier {
 public:
  Notifier(const std::vector<spec::HookSpec>& hooks, NotifierOptions options);
  // As Finish with no time.
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // Queues the messages of a notification. Never blocks on a hook.
  void Take(const proto::Notification& notification);

  // Whether the process is the command of a hook.
  bool Owns(pid_t process) const { return processes_.Contains(process); }

  // Sends what is queued, at most for this long, then ends the threads and kills the commands.
  // Returns the results by hook. Later calls return the same.
  std::vector<HookResult> Finish(Duration limit);

 private:
  struct Worker {
    explicit Worker(spec::HookSpec spec, size_t limit) : hook(std::move(spec)), queue(limit) {}

    const spec::HookSpec hook;
    HookQueue queue;     // guarded by mutex_
    HookResult result;   // guarded by mutex_
    std::thread thread;  // of Deliver
  };

  void Deliver(Worker& worker);
  HookOutcome Send(const Worker& worker, const HookMessage& message);
  // Returns false if the deadline came first.
  bool Pause(Duration length);

  const NotifierOptions options_;
  io::CommandProcesses processes_;
  io::CommandDeadline deadline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool finishing_ = false;  // guarded by mutex_
  HookMessages messages_;   // guarded by mutex_
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace longhaul::service
