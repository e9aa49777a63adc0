// What each queue has used recently beyond its guarantee: amounts times time, halved every
// half-life.
//
// As in Slurm's and KAI's fair share, but in whole numbers, so that a replay agrees to the last
// bit: time is cut into periods of a sixteenth of the half-life; within a period usage adds up,
// and at its end everything is multiplied by 2^(-1/16), a constant in 2^-32ths.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"

namespace longhaul::scheduler::share {

class DecayedUsage {
 public:
  // Requires half_life >= 16 ns.
  DecayedUsage(size_t queues, Duration half_life);

  // From `now` on queue `queue` uses `rate` beyond its guarantee (thousandths of a GPU). Time never
  // goes back: an earlier `now` counts as the last.
  void SetRate(size_t queue, int64_t rate, Instant now);

  // The queue has used what `of` of another had. Requires equal half-lives, else it begins anew.
  void Inherit(size_t queue, const DecayedUsage& other, size_t of) {
    if (period_ == other.period_) entries_[queue] = other.entries_[of];
    entries_[queue].rate = 0;
  }

  // A queue's decayed thousandths of GPU-seconds at `now`.
  int64_t At(size_t queue, Instant now) const;

 private:
  struct Entry {
    int64_t total = 0;  // at the end of `period`'s predecessor, with what was used in it since
    int64_t rate = 0;
    Instant since{};
  };

  void Bring(Entry& entry, Instant now) const;
  int64_t PeriodOf(Instant at) const;

  Duration period_;
  std::vector<Entry> entries_;
};

}  // namespace longhaul::scheduler::share
