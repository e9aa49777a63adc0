// Which notifications of a job carry the sums of its ledger, so that a reader of the log knows
// where the time went during the run.
//
// Those of states, attempts and faults do, because the categories change there. Of the steps in
// between, one does at most every second, and at most kNotesOfRun times within the time that the
// run has taken so far: a run of days adds little to its log. Deterministic.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace longhaul::runtime {

class LedgerNotes {
 public:
  // Twice the periods of a chart (service/controller/view/spent_time.h).
  static constexpr int64_t kNotesOfRun = 480;
  static constexpr Duration kShortest = std::chrono::seconds(1);

  // Requires that the run began at `start` and that `now` is not before the last call's.
  bool IsDue(Instant start, Instant now) const {
    return now - noted_ >= std::max(kShortest, (now - start) / kNotesOfRun);
  }
  void Note(Instant now) { noted_ = now; }

 private:
  Instant noted_{};
};

}  // namespace longhaul::runtime
