#include "service/agent/link/reconnect_pauses.h"

#include <algorithm>

namespace longhaul::service {
namespace {

// A service manager has started a controller again by then.
constexpr Duration kQuickTime = std::chrono::minutes(1);
// With several controllers, one takes over within the first rounds.
constexpr size_t kTakeoverRounds = 20;
constexpr Duration kTakeoverPause = std::chrono::milliseconds(100);

}  // namespace

Duration ReconnectPauses::LongestNow(bool answered, Instant now) const {
  if (addresses_ > 1 && rounds() < kTakeoverRounds) return std::min(kTakeoverPause, longest_);
  if (answered || now - lost_at_ > kQuickTime) return longest_;
  // The random pause is at most half as long again.
  return std::min(2 * heartbeat_period_ / 3, longest_);
}

Duration ReconnectPauses::Next(const ConnectionEnd& end, Instant now, Random& random) {
  failed_ = end.welcomed ? 0 : failed_ + 1;
  if (end.welcomed) {
    lost_at_ = now;
    if (end.heartbeat_period > Duration(0)) heartbeat_period_ = end.heartbeat_period;
  }
  if (addresses_ > 1 && (end.welcomed || failed_ % addresses_ != 0)) return Duration(0);
  pause_ = end.welcomed ? first_ : std::min(2 * pause_, LongestNow(end.answered, now));
  return Duration(pause_.count() / 2 +
                  static_cast<int64_t>(random.Below(static_cast<uint64_t>(pause_.count()))));
}

}  // namespace longhaul::service
