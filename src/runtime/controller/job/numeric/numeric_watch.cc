#include "runtime/controller/job/numeric/numeric_watch.h"

#include <algorithm>
#include <bit>

namespace longhaul::runtime::controller {

namespace {

// A rollback further back than this many losses is compared only as far as they are known.
constexpr size_t kKeptLosses = 4096;
constexpr uint64_t kCloseBadSteps = 100;

bool Acts(proto::NumericPolicy::Action action) {
  return action == proto::NumericPolicy::STOP || action == proto::NumericPolicy::ROLLBACK;
}

}  // namespace

std::string NumericFinding::Steps() const {
  if (first_step == last_step) return "step " + std::to_string(last_step);
  return "steps " + std::to_string(first_step) + " to " + std::to_string(last_step);
}

// A spike is certain with its last step, so the steps before it may still turn out to be part of
// it.
uint64_t NumericWatch::StepsOfProof(const proto::NumericPolicy& policy) {
  if (Acts(policy.spike())) return LossSpikes::kInARow;
  return Acts(policy.not_finite()) ? 1 : 0;
}

uint64_t NumericWatch::NewestGood(uint64_t first_bad) const {
  if (first_bad < 2) return 0;
  return std::max(first_bad - 2, std::min(proven_.value_or(0), first_bad - 1));
}

void NumericWatch::NoteGood(uint64_t step, uint64_t steps) {
  if (step > steps) proven_ = std::max(proven_.value_or(0), step - steps);
}

std::optional<LossSpikes::Spike> NumericWatch::TakeLoss(uint64_t step, double loss, bool keep) {
  if (keep) losses_[step] = loss;
  if (losses_.size() > kKeptLosses) losses_.erase(losses_.begin());
  const auto before = earlier_.find(step);
  if (before != earlier_.end() && suspicion_.has_value()) {
    const bool same = std::bit_cast<uint64_t>(before->second) == std::bit_cast<uint64_t>(loss);
    ++(same ? suspicion_->equal : suspicion_->different);
    earlier_.erase(before);
  }
  return spikes_.Take(step, loss);
}

void NumericWatch::BeginAttempt(uint64_t restored) {
  spikes_.Rewind(restored);
  proven_ = std::min(proven_.value_or(restored), restored);
  open_.reset();
  newest_good_.reset();
  // Only what came before the finding is known to be good in both.
  const auto begin = losses_.upper_bound(restored);
  if (suspicion_.has_value()) {
    const auto end = losses_.lower_bound(suspicion_->finding.first_step);
    for (auto each = begin; each != losses_.end() && each != end; ++each) earlier_.insert(*each);
  }
  losses_.erase(begin, losses_.end());
}

void NumericWatch::Open(const NumericFinding& finding) {
  open_ = finding;
  newest_good_ = NewestGood(finding.first_step);
}

bool NumericWatch::Improve(uint64_t first_step, uint64_t last_step,
                           const std::set<uint32_t>& ranks) {
  if (!open_.has_value() || ranks.empty() || open_->kind != NumericFinding::Kind::kNotFinite) {
    return false;
  }
  if (last_step > open_->last_step) return false;
  if (last_step < open_->first_step) {
    open_->first_step = first_step;
    open_->last_step = last_step;
    open_->ranks = ranks;
    newest_good_ = NewestGood(first_step);
    return true;
  }
  const size_t before = open_->ranks.size();
  open_->ranks.insert(ranks.begin(), ranks.end());
  return open_->ranks.size() > before;
}

void NumericWatch::BeginReplay(uint64_t attempt, uint32_t fault, uint64_t restored) {
  const uint64_t bad = open_->first_step;
  const bool close = close_rollbacks_ > 0 && bad <= last_first_bad_ + kCloseBadSteps;
  close_rollbacks_ = close ? close_rollbacks_ + 1 : 1;
  last_first_bad_ = bad;
  earlier_.clear();
  suspicion_ = Suspicion{*open_, attempt, fault, restored, 0, 0};
  open_.reset();
}

bool NumericWatch::IsAgain() const {
  return suspicion_.has_value() && open_.has_value() && suspicion_->finding.kind == open_->kind &&
         open_->first_step <= suspicion_->finding.last_step &&
         open_->last_step >= suspicion_->finding.first_step;
}

void NumericWatch::EndReplay(bool check) {
  suspicion_.reset();
  earlier_.clear();
  check_due_ = check_due_ || check;
}

}  // namespace longhaul::runtime::controller
