#include "runtime/agent/rank_reports.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace longhaul::runtime {
namespace {

// Of a step; more is no time that a worker can have measured.
constexpr Duration kLongestPart = std::chrono::hours(24 * 365);

}  // namespace

RankReports::RankReports(JobId job, uint64_t attempt, uint32_t first_rank, uint32_t ranks)
    : job_(std::move(job)), attempt_(attempt), first_rank_(first_rank), ranks_(ranks) {
  CHECK(ranks >= 1);
}

std::optional<proto::Event> RankReports::Phase(const WorkerPhase& report) {
  Rank& rank = rank_of(report.worker.rank);
  if (report.phase <= rank.phase || !proto::PhaseEntered::Phase_IsValid(report.phase)) {
    return std::nullopt;
  }
  // A rank that skips phases has passed them at this time.
  for (int phase = rank.phase + 1; phase <= report.phase; ++phase) {
    rank.entered_at_ns[static_cast<size_t>(phase)] = ToNanoseconds(report.at);
  }
  rank.phase = report.phase;

  // A phase that all ranks left at the same time is not reported: no rank was in it alone.
  proto::PhaseEntered::Phase slowest = report.phase;
  for (const Rank& other : ranks_) slowest = std::min(slowest, other.phase);
  if (slowest <= reported_phase_) return std::nullopt;
  reported_phase_ = slowest;

  proto::Event event;
  int64_t last_at_ns = 0;
  for (const Rank& other : ranks_) {
    last_at_ns = std::max(last_at_ns, other.entered_at_ns[static_cast<size_t>(slowest)]);
  }
  event.set_at_ns(last_at_ns);
  proto::PhaseEntered& entered = *event.mutable_phase_entered();
  entered.set_job_id(job_.value());
  entered.set_attempt(attempt_);
  entered.set_phase(slowest);
  if (slowest == proto::PhaseEntered::STEPPING) {
    entered.set_restored_from(restored_tier_);
    entered.set_restored_step(restored_step_);
  }
  return event;
}

void RankReports::Restored(const WorkerRestored& report) {
  // Ranks restore the same step; where their sources differ, the farthest one is what it cost.
  restored_tier_ = std::max(restored_tier_, report.tier);
  restored_step_ = report.step;
  if (!reported_step_.has_value()) reported_step_ = report.step;
}

std::optional<proto::Event> RankReports::Step(const WorkerStep& report) {
  Rank& rank = rank_of(report.worker.rank);
  if (report.step <= rank.last_step) return std::nullopt;
  PendingStep& pending = steps_[report.step];
  AddTo(pending, report);
  AddWork(pending, report);
  rank.last_step = report.step;
  rank.stepped_at_ns = ToNanoseconds(report.at);

  // A step counts for the node when its slowest rank has done it. Steps below it that lack a rank's
  // report are merged with it: a rank reports each step at most once and in order, so none will
  // come.
  if (pending.ranks == ranks_.size()) return MergeThrough(report.step);
  if (steps_.size() > kMaxStepsApart) steps_.erase(steps_.begin());
  return std::nullopt;
}

bool RankReports::has_steps() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.last_step > 0; });
}

void RankReports::AddTo(PendingStep& pending, const WorkerStep& report) {
  ++pending.ranks;
  pending.at_ns = std::max(pending.at_ns, ToNanoseconds(report.at));
  // Sums over the ranks; MergeThrough divides them by the number of ranks. `longest_ns` is the
  // largest sum of parts of one rank, which bounds what a step of the whole node can have lost to
  // them.
  pending.data_ns += report.data.count();
  pending.snapshot_ns += report.snapshot.count();
  pending.evaluation_ns += report.evaluation.count();
  pending.communication_ns += report.communication.count();
  int64_t reported_ns = 0;
  for (const Duration part : {report.data, report.snapshot, report.evaluation}) {
    reported_ns += std::clamp<int64_t>(part.count(), 0, kLongestPart.count());
  }
  pending.longest_ns = std::max(pending.longest_ns, reported_ns);
  if (report.loss.has_value() && !std::isfinite(*report.loss)) {
    pending.not_finite.insert(report.worker.rank);
  }
  // The values of the lowest rank that has a loss, so that they do not depend on the order in which
  // the ranks report.
  if (report.loss.has_value() &&
      (!pending.loss_rank.has_value() || report.worker.rank < *pending.loss_rank)) {
    pending.loss_rank = report.worker.rank;
    pending.loss = *report.loss;
    pending.gradient_norm = report.gradient_norm;
    pending.tokens = report.tokens;
    pending.flops = report.flops;
    if (report.validation_loss.has_value()) pending.validation_loss = report.validation_loss;
  }
  if (!pending.validation_loss.has_value()) pending.validation_loss = report.validation_loss;
}

// The time since the rank's last step, less what it reports. The first step of an attempt warms up,
// and between steps that are not next to each other there is more than a step.
void RankReports::AddWork(PendingStep& pending, const WorkerStep& report) {
  const Rank& rank = rank_of(report.worker.rank);
  const int64_t took_ns = ToNanoseconds(report.at) - rank.stepped_at_ns;
  if (rank.stepped_at_ns == 0 || report.step != rank.last_step + 1) return;
  int64_t work_ns = std::min<int64_t>(took_ns, kLongestPart.count());
  for (const Duration part :
       {report.data, report.snapshot, report.evaluation, report.communication}) {
    work_ns -= std::clamp<int64_t>(part.count(), 0, kLongestPart.count());
  }
  pending.work_ns.resize(ranks_.size());
  // At least 1 us: 0 is unknown.
  pending.work_ns[report.worker.rank - first_rank_] = std::max<int64_t>(work_ns, 1'000);
}

void RankReports::AddRankWork(std::map<uint64_t, PendingStep>::const_iterator end,
                              proto::StepReported& merged) const {
  if (merged.times().communication_ns() == 0) return;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    int64_t sum_us = 0;
    int64_t steps = 0;
    for (auto pending = steps_.begin(); pending != end; ++pending) {
      const std::vector<int64_t>& work_ns = pending->second.work_ns;
      if (i >= work_ns.size() || work_ns[i] == 0) continue;
      sum_us += work_ns[i] / 1'000;
      ++steps;
    }
    constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
    merged.add_rank_work_us(static_cast<uint32_t>(steps > 0 ? std::min(kMost, sum_us / steps) : 0));
  }
}

// One event for all pending steps up to `step`, which every rank has reported.
proto::Event RankReports::MergeThrough(uint64_t step) {
  const PendingStep& newest = steps_.at(step);
  proto::Event event;
  event.set_at_ns(newest.at_ns);
  proto::StepReported& merged = *event.mutable_step_reported();
  merged.set_job_id(job_.value());
  merged.set_attempt(attempt_);
  // Each report begins after the one before it, without a gap, as the controller requires. The
  // first one of a worker that restored nothing begins with what it reports.
  const uint64_t first = reported_step_.has_value() ? *reported_step_ + 1 : steps_.begin()->first;
  merged.set_first_step(std::min(first, step));
  merged.set_last_step(step);
  reported_step_ = step;

  // Only rank 0's node speaks for the whole job, or tokens would count once a node.
  const bool speaks_for_job = first_rank_ == 0 && newest.loss_rank.has_value();
  PendingStep sum;
  const auto end = steps_.upper_bound(step);
  for (auto pending = steps_.begin(); pending != end; ++pending) {
    sum.data_ns += pending->second.data_ns;
    sum.snapshot_ns += pending->second.snapshot_ns;
    sum.evaluation_ns += pending->second.evaluation_ns;
    sum.communication_ns += pending->second.communication_ns;
    sum.longest_ns += pending->second.longest_ns;
    sum.tokens += pending->second.tokens;
    sum.flops += pending->second.flops;
    sum.not_finite.insert(pending->second.not_finite.begin(), pending->second.not_finite.end());
  }
  for (const uint32_t rank : sum.not_finite) merged.add_not_finite_ranks(rank);
  const auto ranks = static_cast<int64_t>(ranks_.size());
  proto::StepTimes& times = *merged.mutable_times();
  times.set_data_ns(sum.data_ns / ranks);
  times.set_snapshot_ns(sum.snapshot_ns / ranks);
  times.set_evaluation_ns(sum.evaluation_ns / ranks);
  times.set_communication_ns(sum.communication_ns / ranks);
  times.set_longest_ns(sum.longest_ns);
  AddRankWork(end, merged);
  if (speaks_for_job) {
    merged.set_has_loss(true);
    merged.set_loss(newest.loss);
    merged.set_gradient_norm(newest.gradient_norm);
    merged.set_tokens(sum.tokens);
    merged.set_flops(sum.flops);
    if (newest.validation_loss.has_value()) {
      merged.set_has_validation_loss(true);
      merged.set_validation_loss(*newest.validation_loss);
    }
  }
  steps_.erase(steps_.begin(), end);
  return event;
}

std::optional<proto::Event> RankReports::Sealed(const WorkerSealed& report) {
  Rank& rank = rank_of(report.worker.rank);
  if (report.step <= rank.last_sealed) return std::nullopt;
  rank.last_sealed = report.step;

  PendingSeal& pending = seals_[report.step];
  ++pending.ranks;
  pending.at_ns = std::max(pending.at_ns, ToNanoseconds(report.at));
  // Training continues when the slowest rank does, so the way and the time of that rank describe
  // the node.
  if (pending.ranks == 1 || report.blocked.count() > pending.blocked_ns) pending.way = report.way;
  pending.blocked_ns = std::max(pending.blocked_ns, static_cast<int64_t>(report.blocked.count()));
  pending.waited_ns = std::max(pending.waited_ns, static_cast<int64_t>(report.waited.count()));
  pending.bytes += report.bytes;
  pending.non_finite = pending.non_finite || report.non_finite;
  if (report.content.has_value()) pending.contents[report.worker.rank] = *report.content;
  if (pending.ranks < ranks_.size()) {
    if (seals_.size() > kMaxStepsApart) seals_.erase(seals_.begin());
    return std::nullopt;
  }
  proto::Event event;
  event.set_at_ns(pending.at_ns);
  proto::SnapshotSealed& sealed = *event.mutable_snapshot_sealed();
  sealed.set_job_id(job_.value());
  sealed.set_attempt(attempt_);
  sealed.set_step(report.step);
  sealed.set_blocked_ns(pending.blocked_ns);
  sealed.set_bytes(pending.bytes);
  sealed.set_waited_ns(pending.waited_ns);
  sealed.set_way(pending.way);
  sealed.set_non_finite(pending.non_finite);
  // All or none: with a missing content the controller could not assign contents to ranks by their
  // place in the list.
  if (pending.contents.size() == ranks_.size()) {
    for (const auto& [each, content] : pending.contents) *sealed.add_contents() = content;
  }
  seals_.erase(seals_.begin(), seals_.upper_bound(report.step));
  return event;
}

}  // namespace longhaul::runtime
