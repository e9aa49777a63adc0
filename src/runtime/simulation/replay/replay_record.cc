#include "runtime/simulation/replay/replay_record.h"

#include <algorithm>

namespace longhaul::runtime::simulation {

void ReplayRecord::Charge(Instant at) {
  const uint64_t gained = highest_ - open_->highest;
  costs_[open_->cause].lost += (at - open_->since) - step_ * static_cast<int64_t>(gained);
  open_.reset();
}

void ReplayRecord::Struck(Instant at, const std::string& cause) {
  Instant since = last_new_.value_or(at);
  if (open_.has_value()) {
    if (highest_ == open_->highest) since = at;
    Charge(since);
  }
  ++costs_[cause].count;
  open_ = {cause, since, highest_, attempt_};
}

void ReplayRecord::Stepped(Instant at, uint64_t attempt, uint64_t last) {
  attempt_ = attempt;
  if (last <= highest_) return;
  highest_ = last;
  last_new_ = at;
  if (open_.has_value() && attempt > open_->attempt) Charge(at);
}

void ReplayRecord::RolledBack(uint64_t step) {
  std::erase_if(slow_, [step](const auto& each) { return each.first > step; });
}

void ReplayRecord::RedoneByHand(const std::string& cause, Duration work) {
  redone_ += work;
  costs_[cause].lost += work;
}

void ReplayRecord::End(Instant at) {
  if (!open_.has_value()) return;
  Charge(highest_ > open_->highest ? *last_new_ : at);
}

Duration ReplayRecord::slow_excess() const {
  Duration sum{};
  for (const auto& [last, excess] : slow_) sum += excess;
  return sum;
}

}  // namespace longhaul::runtime::simulation
