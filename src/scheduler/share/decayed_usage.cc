#include "scheduler/share/decayed_usage.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::scheduler::share {

namespace {

__extension__ using Int128 = __int128;

constexpr int64_t kPeriodsOfHalfLife = 16;
constexpr int64_t kDecay = 4'112'874'773;                // floor(2^(-1/16) * 2^32)
constexpr int64_t kForgotten = 64 * kPeriodsOfHalfLife;  // 64 halvings leave nothing of 63 bits

int64_t Use(int64_t rate, Duration time) {
  const Int128 used = static_cast<Int128>(rate) * time.count() / 1'000'000'000;
  return static_cast<int64_t>(std::min<Int128>(used, INT64_MAX / 4));
}

}  // namespace

DecayedUsage::DecayedUsage(size_t queues, Duration half_life)
    : period_(half_life / kPeriodsOfHalfLife), entries_(queues) {
  CHECK(period_ > Duration(0)) << "a half-life needs 16 ns";
}

int64_t DecayedUsage::PeriodOf(Instant at) const { return ToNanoseconds(at) / period_.count(); }

void DecayedUsage::Bring(Entry& entry, Instant now) const {
  if (now <= entry.since) return;
  const int64_t last = PeriodOf(now);
  int64_t period = PeriodOf(entry.since);
  if (last - period > kForgotten) {  // only the newest periods can still be seen
    period = last - kForgotten;
    entry.total = 0;
    entry.since = InstantFromNanoseconds(period * period_.count());
  }
  for (; period < last; ++period) {
    const Instant end = InstantFromNanoseconds((period + 1) * period_.count());
    const int64_t used = Use(entry.rate, end - entry.since);
    entry.total = std::min(entry.total + used, INT64_MAX / 4);
    entry.total = static_cast<int64_t>(static_cast<Int128>(entry.total) * kDecay >> 32);
    entry.since = end;
  }
  entry.total = std::min(entry.total + Use(entry.rate, now - entry.since), INT64_MAX / 4);
  entry.since = now;
}

void DecayedUsage::SetRate(size_t queue, int64_t rate, Instant now) {
  Entry& entry = entries_[queue];
  Bring(entry, now);
  if (entry.since < now) entry.since = now;
  entry.rate = rate;
}

int64_t DecayedUsage::At(size_t queue, Instant now) const {
  Entry entry = entries_[queue];
  Bring(entry, now);
  return entry.total;
}

}  // namespace longhaul::scheduler::share
