// Watches the processes of workers of commands, and reports those that are idle or stopped.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "io/event_loop.h"
#include "runtime/agent/agent_messages.h"
#include "service/agent/activity/activity.h"

namespace longhaul::service {

class ActivityWatch {
 public:
  // `report` receives WorkerQuiet. `loop` must outlive this. All calls on the loop's thread.
  ActivityWatch(io::EventLoop& loop, std::function<void(runtime::AgentInput)> report);
  ~ActivityWatch();
  ActivityWatch(const ActivityWatch&) = delete;
  ActivityWatch& operator=(const ActivityWatch&) = delete;

  // `session` is the worker's process, which leads a session; `output` is its log.
  void Watch(const runtime::WorkerId& worker, pid_t session, const std::string& output,
             const proto::HangLimits& limits);
  void Forget(const runtime::WorkerId& worker);

  // Compares each worker with the state in which the call before found it, between the regular
  // looks. Returns the time for which it has shown no activity, at most twice kProbePeriod for each
  // call; zero at the first call. Workers that are not watched are left out.
  std::map<runtime::WorkerId, Duration> Compare(const std::vector<runtime::WorkerId>& workers);

 private:
  struct Watched {
    pid_t session = 0;
    std::string output;
    Duration period;
    Activity activity;
    Activity compared;  // by Compare
  };
  static constexpr Duration kProbePeriod = std::chrono::seconds(2);
  void Look();
  void SetTimer();

  io::EventLoop& loop_;
  const std::function<void(runtime::AgentInput)> report_;
  std::map<runtime::WorkerId, Watched> watched_;
  io::EventLoop::TimerId timer_ = 0;  // runs while there are workers
};

// When a worker's state is reported, with the defaults for what is not stated.
ActivityLimits ActivityLimitsOf(const proto::HangLimits& limits);

}  // namespace longhaul::service
