#include "scheduler/internal/guarantees.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "scheduler/internal/quota_check.h"

namespace longhaul::scheduler::internal {

namespace {

using share::QueueIndex;

// The queue and those above it, without the root.
std::vector<QueueIndex> Path(const SchedulerState& state, QueueIndex queue) {
  std::vector<QueueIndex> path;
  for (; queue > share::kRootQueue; queue = state.queues.parent(queue)) path.push_back(queue);
  return path;
}

bool Contains(const std::vector<QueueIndex>& path, QueueIndex queue) {
  return std::find(path.begin(), path.end(), queue) != path.end();
}

// What each queue uses while jobs are chosen to be stopped.
using Usage = std::map<QueueIndex, spec::SharedAmounts>;

// The dimensions of GPUs in which a job that asks for these amounts has a guarantee or not: all
// models together, and its own model where anybody is guaranteed some of it.
std::vector<size_t> GuaranteedGpus(const SchedulerState& state, const spec::SharedAmounts& asked) {
  std::vector<size_t> dimensions = {0};
  for (size_t r = spec::kSharedResources; r < state.queues.dimensions(); ++r) {
    bool guaranteed = false;
    for (QueueIndex q = 1; q < static_cast<QueueIndex>(state.queues.size()); ++q) {
      guaranteed = guaranteed || state.queues.guarantee(q)[r] > 0;
    }
    if (guaranteed && asked[r] > 0) dimensions.push_back(r);
  }
  return dimensions;
}

// The rule of QueueTree::MayReclaim, written a second time on plain numbers, so that the check does
// not depend on the tree.
bool MayTake(const SchedulerState& state, const Usage& usage, QueueIndex claimant,
             const spec::SharedAmounts& asked, QueueIndex victim, const spec::SharedAmounts& held) {
  const std::vector<QueueIndex> ours = Path(state, claimant);
  const std::vector<QueueIndex> theirs = Path(state, victim);
  QueueIndex branch = share::kNoQueue;
  for (const QueueIndex queue : ours) {
    if (!Contains(theirs, queue)) branch = queue;
  }
  if (branch == share::kNoQueue || Contains(ours, victim) || asked[0] == 0) return false;
  for (const size_t r : GuaranteedGpus(state, asked)) {
    if (usage.at(branch)[r] + asked[r] > state.queues.guarantee(branch)[r]) return false;
    for (const QueueIndex queue : theirs) {
      if (Contains(ours, queue)) break;
      if (held[r] > 0 && usage.at(queue)[r] - held[r] < state.queues.guarantee(queue)[r]) {
        return false;
      }
    }
  }
  return true;
}

// Whether all tasks of the job are on devices of these models.
bool IsOnModels(const SchedulerState& state, const JobEntry& job, uint64_t models) {
  return std::all_of(job.tasks.begin(), job.tasks.end(), [&](const HeldTask& task) {
    const uint16_t model = state.topology->kind_of(state.resources.task(task.slot).node).model;
    return (models >> model & 1) != 0;
  });
}

// Whether the job waits, and has no right or reason to do so other than its queue's guarantee.
bool IsChecked(const SchedulerState& state, const JobEntry& job) {
  if (job.placed || job.leaving || job.request->groups.size() != 1) return false;
  const GroupRequest& group = job.request->groups[0];
  if (group.shape.gpus == 0 || !state.queues.reclaims(job.queue)) return false;
  // There is room, but it is reserved for a job that goes before.
  if (job.block.kind == Block::Kind::kReservation) return false;
  if (state.queues.CheckUser(state.MinimumOf(job))) return false;
  const int64_t asked = int64_t{group.shape.gpu_milli()} * group.minimum;
  return state.queues.usage(job.queue)[0] + asked <= state.queues.limit(job.queue)[0];
}

bool MayBeStopped(const SchedulerState& state, share::QueueIndex claimant, const JobEntry& job) {
  if (state.IsProtected(job, claimant)) return false;
  if (!job.placed || job.held[0] == 0 || job.started_in_round == state.rounds) return false;
  const Preemption rule = job.request->preemption;
  if (rule == Preemption::kNever || rule == Preemption::kShrink) return false;
  const Instant yesterday = state.now - std::chrono::hours(24);
  const auto recent = std::count_if(job.evictions.begin(), job.evictions.end(),
                                    [&](Instant at) { return at > yesterday; });
  return recent < static_cast<std::ptrdiff_t>(state.policy.evictions_a_day);
}

// Whether a round stopped only jobs that an operator had asked it to stop. Otherwise it took from
// jobs that may have started in the place of those.
bool StartsByTheseAlone(const std::vector<Decision>& decisions) {
  return std::none_of(decisions.begin(), decisions.end(), [](const Decision& decision) {
    const bool stops = decision.kind == DecisionKind::kSuspend ||
                       decision.kind == DecisionKind::kShrink ||
                       (decision.kind == DecisionKind::kEvict &&
                        decision.reason.find("makes room for") != std::string::npos);
    return stops;
  });
}

bool AnotherIsPromised(const SchedulerState& state, JobNumber job) {
  return state.reservations.size() > (state.reservations.contains(job) ? 1u : 0u);
}

// The jobs that the guarantee of the waiting job's queue lets it stop, on these models. The job
// would start if they were stopped, and only by that: names them, else returns an empty text.
std::string WouldStartWithout(const SchedulerCore& core, JobNumber number,
                              const ModelChoice& choice, Instant now) {
  const SchedulerState& state = core.state;
  const JobEntry& job = state.at(number);
  const uint64_t models = choice.models.empty() ? kAnyModel : choice.models[0];
  Usage usage;
  const auto queues = static_cast<QueueIndex>(state.queues.size());
  for (QueueIndex q = 0; q < queues; ++q) usage[q] = state.queues.usage(q);
  // The proof is a round on a copy, with the jobs stopped one after the other as long as the rule
  // allows it.
  SchedulerCore trial = core;
  // The guarantee covers what borrowers hold; moves of other jobs are not part of it.
  trial.state.policy.moves = false;
  // Jobs that this round has begun are left to the next round, which is due if that matters.
  for (JobEntry* each : trial.state.jobs.InOrder()) {
    each->started_in_round += each->started_in_round == state.rounds ? 1 : 0;
  }
  std::string taken;
  for (const JobEntry* each : state.jobs.InOrder()) {
    const JobEntry& other = *each;
    if (other.queue == job.queue || !MayBeStopped(state, job.queue, other) ||
        !IsOnModels(state, other, models) ||
        !MayTake(state, usage, job.queue, choice.amounts, other.queue, other.held)) {
      continue;
    }
    for (const QueueIndex queue : Path(state, other.queue)) usage[queue] -= other.held;
    trial.Apply(JobEvictionAsked{other.request->id}, now);
    taken += " " + other.request->id.value();
  }
  if (taken.empty()) return "";
  trial.Apply(JobExpedited{job.request->id}, now);
  if (!StartsByTheseAlone(trial.Decide(now, kUnlimitedSteps))) return "";
  const JobEntry& after = trial.state.at(number);
  return after.placed && IsOnModels(trial.state, after, models) ? taken : "";
}

}  // namespace

Status CheckGuarantees(const SchedulerCore& core, Instant now) {
  const SchedulerState& state = core.state;
  if (!state.policy.preempt || state.policy.backfill == Backfill::kNone || core.unfinished) {
    return {};
  }
  for (const JobEntry* each : state.jobs.InOrder()) {
    const JobEntry& job = *each;
    const JobNumber number = job.number;
    // Reservations of other jobs are another reason to wait.
    if (!job.request->preempts || !IsChecked(state, job) || AnotherIsPromised(state, number))
      continue;
    for (const ModelChoice& choice : ModelChoicesOf(state, job)) {
      const std::string taken = WouldStartWithout(core, number, choice, now);
      if (taken.empty()) continue;
      return InternalError(job.request->id.value() +
                           " waits within its queue's guarantee, and stopping" + taken +
                           " would start it");
    }
  }
  return {};
}

}  // namespace longhaul::scheduler::internal
