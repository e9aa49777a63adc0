// The parts of a job's time, its problems, and the time that fixing each would save.
//
// A rank's peers are those of its pipeline stage. A finding's worth is the time that a replay
// (across/replay.h) with that one change saves. Faults that cost 1 % of a step come first, because
// they can be fixed: losses of the job as planned follow them even if they are worth more. Both are
// sorted by worth:
//   slow kernels   a rank (or all of a host) computes longer than the median of its peers
//   late host      its kernels are launched later than its peers'
//   input          the host waited in a data loader
//   slow link      an exchange takes longer on the wire than others of its kind and size
//   stall          once, a rank stopped: a piece of its work or a call took many times the usual
//   exposed        a dimension's exposed wire time
//   imbalance      stages of different length, compared with all at the mean
//   host, bubble   time that all ranks lose alike
// A worth below the clocks' residual is left out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/across/critical_path.h"
#include "profiler/across/exposure.h"
#include "profiler/across/profiled_job.h"
#include "profiler/across/replay.h"
#include "profiler/across/totals.h"

namespace longhaul::profiler {

enum class Cause {
  kSlowKernels,
  kMoreWork,
  kLateHost,
  kInput,
  kSlowLink,
  kExposedCommunication,
  kImbalance,
  kHostOverhead,
  kStall,
};
std::string_view ToString(Cause cause);
// A possible remedy, for a person.
std::string_view RemedyOf(Cause cause);

struct Finding {
  Cause cause = Cause::kSlowKernels;
  std::string subject;          // "rank 5", "host 1", "link 3-7", "tensor"
  std::vector<int64_t> ranks;   // concerned
  double seconds_per_step = 0;  // worth
  std::string evidence;         // a sentence
  bool fault = false;           // can be fixed, and is worth 1 % of a step
};

struct Pipeline {
  struct Stage {
    std::vector<int64_t> ranks;
    double compute_s = 0;  // a step, mean of the ranks
    // Per step: waiting for other stages, and at the trace's ends while the longest stage worked.
    // Stages that only begin and end one after the other do not wait there.
    double bubble_s = 0;
    double due_s = 0;   // per step: the bubble that the schedule requires
    double late_s = 0;  // part of bubble_s: longer than that, or elsewhere in the step
  };
  std::vector<Stage> stages;
  Schedule schedule = Schedule::kOneForwardOneBackward;
  uint64_t micro_batches = 0;  // per step; 0: sends and receives do not show it
  uint64_t chunks = 1;         // of a stage's layers
  bool weight_passes = false;  // gradients of the weights are separate passes
  double expected_bubble = 0;  // share of a step: for 1F1B (p - 1) / (m + p - 1)
  double measured_bubble = 0;
};

// The name of the schedule, or "interleaved zero-bubble".
std::string_view ScheduleName(const Pipeline& pipeline);

struct Findings {
  std::vector<RankTotals> totals;  // [rank]
  std::vector<Finding> findings;   // faults, worst first; then the others, worst first
  Pipeline pipeline;
  Exposed exposed;
  double step_s = 0;           // of the job, mean
  double replayed_step_s = 0;  // check of the model: the replay without a change
  size_t steps = 0;
  CriticalPath path;
};

// `schedule`: the pipeline's, where the user gives it.
Findings FindAll(const ProfiledJob& job, std::optional<Schedule> schedule = {});

}  // namespace longhaul::profiler
