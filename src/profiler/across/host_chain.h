// A rank's host as the replay has it: launch after launch, held up only where it waited for the
// device.
//
// From a launch to the next the host works (Python, the launch itself) or waits for data; both take
// as long whatever the device does. Where it waited for the device (rank/host_time.h) it continues
// when the device has come so far. So how early a kernel could have been launched follows, which an
// idle time alone doesn't tell: exchanges may have run meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "profiler/rank/summary.h"

namespace longhaul::profiler {

struct HostChain {
  struct Mark {
    int64_t time_ns = 0;
    // Since the mark before or, of the first behind a wait, since its end; of the first of all,
    // since the rank's begin: less than 0 where it was launched before.
    int64_t work_ns = 0;
    int64_t input_ns = 0;
    int32_t waits = 0;  // that ended before it
  };
  struct Wait {
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    int32_t mark = 0;  // at its begin
  };
  std::vector<Mark> marks;  // by time
  std::vector<Wait> waits;

  // The mark of a launch; -1 where there is none.
  int32_t Find(int64_t launch_ns) const;
  // The sum of work behind the rank's begin; of a mark's only the share `left`, by its time.
  int64_t work_ns(const std::function<double(int64_t time_ns)>& left = {}) const;
  int64_t input_ns() const;
};

// Empty where the trace tells of no wait: how much of the host's time was work isn't known then.
HostChain ChainOf(const RankSummary& rank);

}  // namespace longhaul::profiler
