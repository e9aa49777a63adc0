// Detects workers that write nothing and compute nothing: the only sign of a hang in a program that
// reports no steps.
//
// Checks each worker every 10 s: its output file and, if that doesn't grow, the processor time of
// all processes of its session. A worker is silent once neither has changed for a minute. Processor
// time below a hundredth of a core is the noise of threads that only wait.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "io/event_loop.h"
#include "runtime/agent/agent_messages.h"

namespace longhaul::service {

// The state of one worker; pure.
class Silence {
 public:
  static constexpr Duration kLimit = std::chrono::minutes(1);

  explicit Silence(Instant now) : since_(now) {}

  // Whether Look needs the processor time, because the output has not changed.
  bool WantsTime(uint64_t output_bytes) const { return output_bytes == output_bytes_; }
  // Returns what to report: how long the worker has been silent, or zero when the silence has
  // ended.
  std::optional<Duration> Look(uint64_t output_bytes, int64_t cpu_ns, Instant now);

 private:
  Instant since_;
  uint64_t output_bytes_ = 0;
  int64_t cpu_ns_ = -1;  // at since_, or at its first measurement
  Instant cpu_at_{};
  bool reported_ = false;
};

class SilenceWatch {
 public:
  static constexpr Duration kPeriod = std::chrono::seconds(10);

  // `report` receives WorkerQuiet. `loop` must outlive this. All calls on the loop's thread.
  SilenceWatch(io::EventLoop& loop, std::function<void(runtime::AgentInput)> report);
  ~SilenceWatch();
  SilenceWatch(const SilenceWatch&) = delete;
  SilenceWatch& operator=(const SilenceWatch&) = delete;

  // `session` is the worker's process, which leads a session.
  void Watch(const runtime::WorkerId& worker, pid_t session, const std::string& output);
  void Forget(const runtime::WorkerId& worker);

 private:
  struct Watched {
    pid_t session = 0;
    std::string output;
    Silence silence;
  };
  void Look();

  io::EventLoop& loop_;
  const std::function<void(runtime::AgentInput)> report_;
  std::map<runtime::WorkerId, Watched> watched_;
  io::EventLoop::TimerId timer_ = 0;
};

// Returns the processor time of the session's live processes and their reaped children.
int64_t SessionCpu(pid_t session);

}  // namespace longhaul::service
