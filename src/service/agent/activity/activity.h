// Whether a worker does anything: turns samples of its processes into the time for which it has
// been idle, and the time for which it has been stopped.
//
// Pure: the samples and the time are arguments (process_activity.h reads them). A worker is active
// if it has written output, if a process of it has begun or ended, if it is being debugged, if a
// thread waits for a disk, or if its processes used more than the noise of threads that only wait:
// a hundredth of a core, 64 KiB of I/O or of network traffic a second, or 1,000 voluntary context
// switches a second. A thread that polls every 10 ms, as Gloo's does, makes 100 of these.
// Leaves out accelerators: a worker that waits for one without using a core counts as idle.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"

namespace longhaul::service {

// The processes of one worker at one moment; the numbers count from their start.
struct ActivitySample {
  uint32_t processes = 0;
  bool stopped = false;        // the worker's own process is in state T
  bool debugged = false;       // a process has a tracer
  bool disk_wait = false;      // a thread is in state D
  int64_t cpu_ns = 0;          // with reaped children
  uint64_t io_bytes = 0;       // read and written, of files and pipes
  uint64_t network_bytes = 0;  // of TCP connections; where these are not seen, of the interfaces
  uint64_t switches = 0;       // voluntary context switches of all threads
  uint64_t output_bytes = 0;
};

struct ActivityLimits {
  Duration stopped;  // before a stop is reported
  Duration idle;     // before idleness is reported
};

class Activity {
 public:
  struct Report {
    Duration idle{};     // zero: active
    Duration stopped{};  // zero: not stopped, or not as long as its limit
    std::string evidence;
  };

  // `period` is the planned time between two samples. A longer time between two (this process was
  // paused, or the machine slept) proves little: at most twice the period of it is counted.
  Activity(ActivityLimits limits, Duration period, Instant now);

  // Returns what to report: while a limit is exceeded each time, and once when that has ended.
  // `now` should be of a monotonic clock; if it goes back, the worker counts as active.
  std::optional<Report> Take(const ActivitySample& sample, Instant now);

  Duration idle() const { return idle_; }
  Duration stopped() const { return stopped_; }

 private:
  bool IsActive(const ActivitySample& sample, Instant now) const;
  std::string Evidence(const ActivitySample& sample) const;

  ActivityLimits limits_;
  Duration period_;
  Instant at_;
  std::optional<ActivitySample> last_;
  ActivitySample base_;  // when the worker was last active
  Instant base_at_;
  Duration idle_{};
  Duration stopped_{};
  bool reported_ = false;
};

// The time between two samples, such that limits are noticed within a quarter of the shorter one.
Duration ActivityPeriod(const ActivityLimits& limits);

}  // namespace longhaul::service
