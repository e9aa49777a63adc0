#include "runtime/controller/job/hang/start_times.h"

#include <algorithm>
#include <utility>

namespace longhaul::runtime::controller {
namespace {

constexpr int64_t kFactor = 3;
constexpr Duration kFloor = std::chrono::minutes(2);
constexpr Duration kPhaseFloor = std::chrono::seconds(30);
constexpr uint32_t kMostDoublings = 10;

}  // namespace

void StartTimes::Begin(proto::Restore::Tier tier, Instant now) {
  tier_ = tier;
  begun_ = phase_begun_ = now;
  phase_ = proto::PhaseEntered::START_UP;
  taken_ = {};
  learns_ = true;
}

void StartTimes::CountFrom(Instant now) {
  if (!begun_.has_value()) return;
  begun_ = phase_begun_ = now;
  learns_ = false;
}

void StartTimes::EnterPhase(Phase phase, Instant now) {
  if (!begun_.has_value() || phase <= phase_ || static_cast<size_t>(phase) >= kPhases) return;
  taken_[static_cast<size_t>(phase_)] = now - phase_begun_;
  phase_ = phase;
  phase_begun_ = now;
}

void StartTimes::NoteFirstStep(Instant at) {
  if (!begun_.has_value()) return;
  const Instant begun = *std::exchange(begun_, std::nullopt);
  overdue_ = 0;
  if (!learns_) return;
  known_.insert(tier_);
  slowest_ = std::max(slowest_, at - begun);
  taken_[static_cast<size_t>(phase_)] = at - phase_begun_;
  for (size_t i = 0; i < kPhases; ++i) slowest_of_[i] = std::max(slowest_of_[i], taken_[i]);
}

int64_t StartTimes::Doublings() const { return int64_t{1} << std::min(overdue_, kMostDoublings); }

Duration StartTimes::Limit(Duration longest) const {
  if (!known_.contains(tier_) || slowest_ > longest / kFactor) return longest;
  return std::min(longest, std::max(kFloor, kFactor * slowest_) * Doublings());
}

// What is restored is read in RESTORE, from a shared folder before START_UP.
std::optional<Duration> StartTimes::PhaseLimit() const {
  const bool reads = phase_ == proto::PhaseEntered::RESTORE || tier_ == proto::Restore::TIER_SHARED;
  const Duration slowest = slowest_of_[static_cast<size_t>(phase_)];
  if (!begun_.has_value() || slowest <= Duration(0) || (reads && !known_.contains(tier_))) {
    return std::nullopt;
  }
  constexpr Duration kMost = std::chrono::hours(24);
  return std::max(kPhaseFloor, kFactor * std::min(slowest, kMost)) * Doublings();
}

}  // namespace longhaul::runtime::controller
