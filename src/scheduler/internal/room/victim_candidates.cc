#include "scheduler/internal/room/victim_candidates.h"

#include <algorithm>

namespace longhaul::scheduler::internal {

namespace {

// A search looks at so many candidates at most; the dearest are left out.
constexpr size_t kMaxCandidates = 4'096;

bool WithinBudget(const SchedulerState& state, const JobEntry& job) {
  const Instant yesterday = state.now - std::chrono::hours(24);
  const auto recent = std::count_if(job.evictions.begin(), job.evictions.end(),
                                    [&](Instant at) { return at > yesterday; });
  return recent < static_cast<std::ptrdiff_t>(state.policy.evictions_a_day);
}

// The elastic steps that the job holds beyond its minimum. None where it has lost tasks and waits
// for others with fewer than its minimum.
int32_t SparePieces(const JobEntry& job) {
  if (!IsElastic(job)) return 0;
  const GroupRequest& group = job.request->groups[0];
  return std::max(0, static_cast<int32_t>(job.tasks.size()) - group.minimum) / group.step;
}

// What the candidate gives back with its spare pieces.
spec::SharedAmounts SpareOf(const SchedulerState& state, const VictimCandidate& candidate) {
  const int32_t step = candidate.job->request->groups[0].step;
  return state.AmountsOfLast(*candidate.job, int64_t{candidate.spare_pieces} * step);
}

// Whether the rules let `job` take the candidate; lowers the candidate to what they allow: all of
// it, or some pieces.
bool IsAllowed(const SchedulerState& state, const share::QueueTree& queues, const JobEntry& job,
               VictimCandidate& candidate) {
  const JobEntry& other = *candidate.job;
  candidate.may_stop = other.request->preemption != Preemption::kShrink;
  if (other.queue == job.queue) {
    if (other.held_priority >= job.request->priority) return false;
  } else {
    const spec::SharedAmounts asked = state.MinimumAmounts(job);
    const auto may = [&](const spec::SharedAmounts& amounts) {
      return queues.MayReclaim(job.queue, asked, other.queue, amounts);
    };
    if (!queues.reclaims(job.queue)) return false;
    if (!may(other.held)) candidate.may_stop = false;
    if (!candidate.may_stop) {
      while (candidate.spare_pieces > 0 && !may(SpareOf(state, candidate))) {
        --candidate.spare_pieces;
      }
    }
  }
  return candidate.may_stop || candidate.spare_pieces > 0;
}

// Whether queue and priority alone forbid `job` to take the other job: the cheapest test, since
// most jobs fail it.
bool IsOutOfReach(const SchedulerState& state, const JobEntry& job, const JobEntry& other) {
  return other.queue == job.queue ? other.held_priority >= job.request->priority
                                  : !state.queues.reclaims(job.queue);
}

// The same as IsAllowed, with the candidate's budget of evictions and its elastic steps.
bool MayTakeFrom(const SchedulerState& state, const JobEntry& job, VictimCandidate& candidate) {
  const JobEntry& other = *candidate.job;
  if (!job.request->preempts) return false;
  if (IsOutOfReach(state, job, other)) return false;
  if (other.request->preemption == Preemption::kNever || !WithinBudget(state, other)) return false;
  if (state.IsProtected(other, job.queue)) return false;
  candidate.spare_pieces = SparePieces(other);
  return IsAllowed(state, state.queues, job, candidate);
}

share::Holding MostTaken(const SchedulerState& state, const VictimCandidate& candidate) {
  const JobEntry& other = *candidate.job;
  if (candidate.may_stop) return HeldBy(other);
  return PartOf(other, SpareOf(state, candidate));
}

}  // namespace

bool IsElastic(const JobEntry& job) {
  return job.request->groups.size() == 1 &&
         job.request->groups[0].desired > job.request->groups[0].minimum;
}

bool IsMovable(const SchedulerState& state, const JobEntry& job) {
  if (!state.policy.moves || job.request->preemption == Preemption::kNever) return false;
  if (job.bind_by || job.leaving) return false;
  if (!job.lost.empty() || job.started_in_round == state.rounds) return false;
  if (job.mixes_models) return false;
  return std::none_of(job.moves.begin(), job.moves.end(),
                      [&](Instant at) { return at + state.policy.move_pause > state.now; });
}

VictimCandidates FindVictimCandidates(const SchedulerState& state, const JobEntry& job,
                                      Rights rights, bool also_conflicting) {
  VictimCandidates found;
  std::vector<VictimCandidate>& all = found.jobs;
  for (const JobNumber number : state.placed) {
    const JobEntry& other = state.at(number);
    if (other.number == job.number) continue;
    VictimCandidate candidate;
    candidate.job = &other;
    if (rights == Rights::kMove) {
      if (!IsMovable(state, other)) continue;
      candidate.cost = std::min(LossOfMoving(other), kMaxVictimCost);
      all.push_back(candidate);
      continue;
    }
    if (rights == Rights::kOwn) {
      // No round stops what it has started itself.
      if (other.started_in_round == state.rounds) continue;
      if (!MayTakeFrom(state, job, candidate)) continue;
    } else {
      candidate.spare_pieces = SparePieces(other);
    }
    candidate.excess = other.queue == job.queue ? 0 : state.queues.ExcessShare(other.queue);
    candidate.cost = std::min(LossOfStopping(state, other), kMaxVictimCost);
    all.push_back(candidate);
  }
  // Jobs of the queues that exceed their guarantees most come first, then the cheapest, then the
  // newest: a total order, as numbers are unique.
  std::sort(all.begin(), all.end(), [](const VictimCandidate& a, const VictimCandidate& b) {
    if (a.excess != b.excess) return a.excess > b.excess;
    if (a.cost != b.cost) return a.cost < b.cost;
    return a.job->number > b.job->number;
  });
  if (all.size() > kMaxCandidates) all.resize(kMaxCandidates);
  if (rights != Rights::kOwn || also_conflicting) return found;
  // Every subset of the candidates that are kept leaves every queue its guarantee.
  // Candidates are admitted one after the other against a copy of the queues from which the earlier
  // ones are gone. What remains is allowed together, and so is every part of it.
  share::QueueTree left = state.queues;
  std::erase_if(all, [&](VictimCandidate& candidate) {
    const JobEntry& other = *candidate.job;
    if (other.queue == job.queue) return false;
    const VictimCandidate alone = candidate;
    const bool allowed = IsAllowed(state, left, job, candidate);
    found.dropped = found.dropped || !allowed || candidate.may_stop != alone.may_stop ||
                    candidate.spare_pieces != alone.spare_pieces;
    if (allowed) left.Remove(MostTaken(state, candidate));
    return !allowed;
  });
  return found;
}

// GPU-milliseconds: the work since the last snapshot and the restart, on all of the job's GPUs, and
// a price for priority. In 128 bits, then limited to what a search allows.
int64_t LossOfStopping(const SchedulerState& state, const JobEntry& job) {
  int64_t gpus_milli = 0;
  for (const HeldTask& task : job.tasks) {
    gpus_milli += job.request->groups[static_cast<size_t>(task.group)].shape.gpu_milli();
  }
  const Duration lost = (state.now - job.last_snapshot) + job.request->restart_cost;
  const int64_t lost_ms = std::max<int64_t>(0, lost.count() / 1'000'000);
  // At least one GPU counts, so that stopping a job without GPUs is not free.
  const int64_t gpus = std::max<int64_t>(1'000, gpus_milli);
  __extension__ using Int128 = __int128;
  const Int128 loss = static_cast<Int128>(gpus) * lost_ms / 1000;
  const int64_t priority =
      std::max<int64_t>(0, job.request->priority) * state.policy.priority_gpu_seconds * 1000;
  return static_cast<int64_t>(std::min<Int128>(loss + priority, kMaxVictimCost - 1));
}

bool MayClaim(const SchedulerState& state, const JobEntry& job) {
  if (!job.request->preempts) return false;
  const auto& priorities = state.placed_priorities[static_cast<size_t>(job.queue)];
  if (!priorities.empty() && priorities.begin()->first < job.request->priority) return true;
  if (!state.queues.reclaims(job.queue)) return false;
  const spec::SharedAmounts asked = state.MinimumAmounts(job);
  for (share::QueueIndex up = job.queue; up != share::kRootQueue; up = state.queues.parent(up)) {
    if (state.queues.WithinGuarantee(up, asked)) return true;
  }
  return false;
}

bool MayTakeFrom(const SchedulerState& state, const JobEntry& job, const JobEntry& other) {
  VictimCandidate candidate;
  candidate.job = &other;
  return MayTakeFrom(state, job, candidate);
}

int64_t LossOfMoving(const JobEntry& job) {
  const int64_t still_ms = std::max<int64_t>(1, job.request->restart_cost.count() / 1'000'000);
  const int64_t milli = std::max<int64_t>(kWholeGpu, job.held[0]);
  __extension__ using Int128 = __int128;
  return static_cast<int64_t>(
      std::min<Int128>(static_cast<Int128>(milli) * still_ms / 1'000, kMaxVictimCost - 1));
}

}  // namespace longhaul::scheduler::internal
