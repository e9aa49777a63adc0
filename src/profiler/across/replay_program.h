// What each rank does in a replay (across/replay.h), one thing after another.
//
// Where the trace tells when its host waited for the device (across/host_chain.h) a piece of work
// begins when all of this is so: what the rank did before is done, the calls that it waits for are
// over, it is launched; what it began later than that stays. It waits for a call
//   - that ended right before it began, if it was launched by then,
//   - of a kind (dimension, kind, phase) that computation launched behind it never passes, and
//   - of the step, if it is the optimizer's: gradients and messages are joined there.
// The first alone would do if nothing changed: the others hold where a late host hides them.
// Elsewhere idle time is work, and a rank waits for the calls that nothing hid.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/across/host_chain.h"
#include "profiler/across/profiled_job.h"

namespace longhaul::profiler {

struct ReplayItem {
  enum class Kind : uint8_t { kWork, kLaunch, kArrive, kWait, kHostWait };

  int64_t begin_ns = 0;  // of kWork, in the trace
  // Of kWork: how long; of kArrive: so much behind what allowed it; of kWait: so much before the
  // call's end; of kHostWait: so much before the device has come here.
  int64_t duration_ns = 0;
  int64_t latency_ns = 0;  // from the launch to its begin; of kHostWait: till the host continues
  int32_t instance = -1;   // of kArrive and kWait
  int32_t behind = -1;     // of kArrive: the instance that had the wire until this began
  int32_t mark = -1;       // of kLaunch and kArrive, in the chain; of kHostWait: which wait
  Kind kind = Kind::kWork;
  Spent spent = Spent::kOtherCompute;
};

struct ReplayProgram {
  int64_t begin_ns = 0;
  std::vector<ReplayItem> items;
  HostChain host;
};

// Of each rank.
std::vector<ReplayProgram> ProgramsOf(const ProfiledJob& job);

}  // namespace longhaul::profiler
