#include "service/controller/view/run_history.h"

namespace longhaul::service {
namespace {

constexpr int64_t kNanosecondsPerMillisecond = 1'000'000;

}  // namespace

void RunHistory::Take(const proto::Notification& notification) {
  const int64_t at_ms = notification.at_ns() / kNanosecondsPerMillisecond;
  if (from_ms_ == 0) from_ms_ = at_ms;
  if (notification.has_ledger()) {
    spent_time_.Note(at_ms - from_ms_, notification.ledger().categories());
  }
  if (notification.has_rank_work()) rank_map_.Take(at_ms - from_ms_, notification.rank_work());
  if (notification.has_step()) return TakeStep(notification.step(), at_ms);
  if (!notification.has_snapshot()) return;
  const proto::SnapshotNotification& snapshot = notification.snapshot();
  if (!tiers_.contains(snapshot.tier()) && tiers_.size() >= kMostTiers) return;
  Tier& tier = tiers_[snapshot.tier()];
  tier.step = snapshot.step();
  tier.at_ms = at_ms;
  tier.seconds = snapshot.seconds();
  tier.bytes = snapshot.bytes();
  ++tier.count;
}

void RunHistory::TakeStep(const proto::StepNotification& step, int64_t at_ms) {
  last_step_at_ms_ = at_ms;
  if (step.total_steps() != 0) total_steps_ = step.total_steps();
  const int64_t offset = at_ms - from_ms_;
  // A command may report neither: then its curve is empty, not a line at zero.
  if (step.has_loss()) loss_.Add(offset, step.step(), step.loss());
  if (step.has_validation_loss()) {
    validation_loss_.Add(offset, step.step(), step.validation_loss());
  }
  if (step.tokens_per_second() > 0) {
    tokens_per_second_.Add(offset, step.step(), step.tokens_per_second());
  }
  if (step.flops_per_second() > 0) {
    flops_per_second_.Add(offset, step.step(), step.flops_per_second());
  }
  goodput_.Add(offset, step.step(), step.goodput());
}

}  // namespace longhaul::service
