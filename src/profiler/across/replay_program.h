// The steps of each rank in a replay (across/replay.h), one after the other.
//
// Where the trace shows when its host waited for the device (across/host_chain.h) a piece of work
// begins when all of this holds: the rank's earlier work is done, the calls that it waits for have
// ended, and it is launched; a measured delay beyond that is kept. It waits for a call
//   - that ended right before it began, if it was launched by then,
//   - of a kind (dimension, kind, phase) that computation launched after it never passes, and
//   - of the step, if it is the optimizer's: gradients and messages are joined there.
// The first rule would suffice without a change: the others apply where a late host hides them.
// Elsewhere idle time is work, and a rank waits for the calls that were exposed.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/across/host_chain.h"
#include "profiler/across/profiled_job.h"

namespace longhaul::profiler {

struct ReplayItem {
  enum class Kind : uint8_t { kWork, kLaunch, kArrive, kWait, kHostWait };

  int64_t begin_ns = 0;  // of kWork, in the trace
  // Of kWork: its length; of kArrive: the time after the event that allowed it; of kWait: the time
  // before the call's end; of kHostWait: the time before the device has reached this point.
  int64_t duration_ns = 0;
  int64_t latency_ns = 0;  // from the launch to its begin; of kHostWait: until the host continues
  int32_t instance = -1;   // of kArrive and kWait
  int32_t behind = -1;     // of kArrive: the instance that used the wire until this began
  int32_t mark = -1;       // of kLaunch and kArrive, in the chain; of kHostWait: its wait
  Kind kind = Kind::kWork;
  Spent spent = Spent::kOtherCompute;
};

struct ReplayProgram {
  int64_t begin_ns = 0;
  std::vector<ReplayItem> items;
  HostChain host;
};

// One program for each rank.
std::vector<ReplayProgram> ProgramsOf(const ProfiledJob& job);

}  // namespace longhaul::profiler
