// The model of a rank's host in the replay: one launch after the other, delayed only where it
// waited for the device.
//
// Between two launches the host works (Python, the launch itself) or waits for data; both take the
// same time for any behaviour of the device. Where it waited for the device (rank/host_time.h) it
// continues when the device has reached that point. This gives the earliest launch of a kernel,
// which an idle time alone does not give, because exchanges may have run meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "profiler/rank/summary.h"

namespace longhaul::profiler {

struct HostChain {
  struct Mark {
    int64_t time_ns = 0;
    // Since the mark before or, for the first one after a wait, since its end; for the first of
    // all, since the rank's begin: less than 0 where it was launched before.
    int64_t work_ns = 0;
    int64_t input_ns = 0;
    int32_t waits = 0;  // waits that ended before it
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
  // The sum of work after the rank's begin; of a mark's work only the share `left`, by its time.
  int64_t work_ns(const std::function<double(int64_t time_ns)>& left = {}) const;
  int64_t input_ns() const;
};

// Empty where the trace shows no wait: then the host's share of work is unknown.
HostChain ChainOf(const RankSummary& rank);

}  // namespace longhaul::profiler
