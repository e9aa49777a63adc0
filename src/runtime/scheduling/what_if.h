// What-if questions: how the future of each job differs if something in the cluster changes.
//
// The scheduler is copied twice. One copy stays as it is, the other one gets the changes. Both are
// played forward in virtual time: decisions of the scheduler are carried out at once, and a job
// ends when the time is over that it is expected to run (its user's estimate, else the median of
// jobs like it, else 30 minutes, which is reported as unknown). Then the two courses of each job
// are compared.
//
// Leaves out how long it takes to start, stop and move a job, faults, jobs that will be submitted
// meanwhile, and that an elastic job with fewer nodes runs longer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "runtime/scheduling/cluster_scheduler.h"
#include "runtime/scheduling/what_if_change.h"

namespace longhaul::runtime::scheduling {

struct WhatIfOptions {
  Duration horizon = std::chrono::hours(24);
  uint32_t rounds = 10'000;       // of each copy, at most
  std::function<bool()> expired;  // whether the answer has to come now; absent: never
};

enum class WhatIfEffect : uint8_t {
  kCannotRun,  // the changed cluster could never hold it, or its queue not let it run
  kNotInTime,  // it started within the horizon before, and does not any more
  kStopped,    // it runs, and is stopped for the change or for other jobs
  kMoved,      // it runs, and continues on other nodes
  kShrunk,     // it runs, and continues with fewer nodes
  kStartsLater,
  kEndsLater,  // it starts as before
  kStartsNow,  // it waits, and starts at once
  kStartsEarlier,
  kEndsEarlier,
  kNew,  // it is submitted by the change
};
std::string_view NameOf(WhatIfEffect effect);  // "starts-now"

struct WhatIfRow {
  std::string job;
  WhatIfEffect effect = WhatIfEffect::kStartsNow;
  // The moment that the effect is about, as it is and with the change: of the start, the end, the
  // stop or the move. Absent: it does not happen within the horizon.
  std::optional<Instant> before;
  std::optional<Instant> after;
  std::optional<Instant> resumes;  // kStopped: when it has nodes again
  std::string reason;              // kCannotRun: why
};

struct WhatIfAnswer {
  Instant now;
  Instant until;                // both courses are known up to here
  bool cut = false;             // `until` is before the horizon: too many rounds, or too much time
  uint64_t rounds = 0;          // of both copies
  uint64_t jobs = 0;            // that were compared
  std::vector<WhatIfRow> rows;  // those whose course differs: by effect, then by job
  std::vector<std::string> unknown;  // jobs of unknown duration: 30 minutes were assumed
};

// Returns kNotFound or kInvalidArgument for a change that names something that does not exist (with
// the nearest name) or that the scheduler refuses. Does not change `present`.
Result<WhatIfAnswer> AnswerWhatIf(const ClusterScheduler& present,
                                  const std::vector<WhatIfChange>& changes, Instant now,
                                  const WhatIfOptions& options);

}  // namespace longhaul::runtime::scheduling
