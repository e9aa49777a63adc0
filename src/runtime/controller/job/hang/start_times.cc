#include "runtime/controller/job/hang/start_times.h"

#include <algorithm>

namespace longhaul::runtime::controller {
namespace {

constexpr int64_t kFactor = 3;
constexpr Duration kFloor = std::chrono::minutes(2);
constexpr uint32_t kMostDoublings = 10;

}  // namespace

void StartTimes::Begin(proto::Restore::Tier tier, Instant now) {
  tier_ = tier;
  begun_ = now;
}

void StartTimes::NoteFirstStep(Instant at) {
  if (!begun_.has_value()) return;
  known_.insert(tier_);
  slowest_ = std::max(slowest_, at - *begun_);
  begun_.reset();
  overdue_ = 0;
}

Duration StartTimes::Limit(Duration longest) const {
  if (!known_.contains(tier_) || slowest_ > longest / kFactor) return longest;
  const Duration usual = std::max(kFloor, kFactor * slowest_);
  return std::min(longest, usual * (int64_t{1} << std::min(overdue_, kMostDoublings)));
}

}  // namespace longhaul::runtime::controller
