#include "scheduler/internal/guarantees.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

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

// GPUs that each queue uses, in thousandths, while jobs are chosen to be stopped.
using Usage = std::map<QueueIndex, int64_t>;

bool MayTake(const SchedulerState& state, const Usage& usage, QueueIndex claimant, int64_t asked,
             QueueIndex victim, int64_t held) {
  const std::vector<QueueIndex> ours = Path(state, claimant);
  const std::vector<QueueIndex> theirs = Path(state, victim);
  QueueIndex branch = share::kNoQueue;
  for (const QueueIndex queue : ours) {
    if (!Contains(theirs, queue)) branch = queue;
  }
  if (branch == share::kNoQueue || Contains(ours, victim) || asked == 0) return false;
  if (usage.at(branch) + asked > state.queues.guarantee(branch)[0]) return false;
  for (const QueueIndex queue : theirs) {
    if (Contains(ours, queue)) break;
    if (held > 0 && usage.at(queue) - held < state.queues.guarantee(queue)[0]) return false;
  }
  return true;
}

// Whether the job waits, and has no right or reason to do so other than its queue's guarantee.
bool IsChecked(const SchedulerState& state, const JobEntry& job) {
  if (job.placed || job.leaving || job.request->groups.size() != 1) return false;
  const GroupRequest& group = job.request->groups[0];
  if (group.shape.gpus == 0 || !state.queues.reclaims(job.queue)) return false;
  // There is room, but it is reserved for a job that goes before.
  if (job.block.kind == Block::Kind::kReservation) return false;
  if (state.queues.CheckUser(MinimumOf(job))) return false;
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

}  // namespace

Status CheckGuarantees(const SchedulerCore& core, Instant now) {
  const SchedulerState& state = core.state;
  if (!state.policy.preempt || state.policy.backfill == Backfill::kNone || core.unfinished) {
    return {};
  }
  const auto queues = static_cast<QueueIndex>(state.queues.size());
  for (const auto& [number, job] : state.jobs) {
    // Reservations of other jobs are another reason to wait.
    if (!IsChecked(state, job) || AnotherIsPromised(state, number)) continue;
    const GroupRequest& group = job.request->groups[0];
    const int64_t asked = int64_t{group.shape.gpu_milli()} * group.minimum;
    Usage usage;
    for (QueueIndex q = 0; q < queues; ++q) usage[q] = state.queues.usage(q)[0];
    SchedulerCore trial = core;
    // The guarantee covers what borrowers hold; moves of other jobs are not part of it.
    trial.state.policy.moves = false;
    // Jobs that this round has begun are left to the next round, which is due if that matters.
    for (auto& [begun, each] : trial.state.jobs) {
      each.started_in_round += each.started_in_round == state.rounds ? 1 : 0;
    }
    std::string taken;
    for (const auto& [other_number, other] : state.jobs) {
      const int64_t held = other.held[0];
      if (other.queue == job.queue || !MayBeStopped(state, job.queue, other) ||
          !MayTake(state, usage, job.queue, asked, other.queue, held)) {
        continue;
      }
      for (const QueueIndex queue : Path(state, other.queue)) usage[queue] -= held;
      trial.Apply(JobEvictionAsked{other.request->id}, now);
      taken += " " + other.request->id.value();
    }
    if (taken.empty()) continue;
    trial.Apply(JobExpedited{job.request->id}, now);
    if (!StartsByTheseAlone(trial.Decide(now, kUnlimitedSteps))) continue;
    if (!trial.state.at(number).placed) continue;
    return InternalError(job.request->id.value() +
                         " waits within its queue's guarantee, and stopping" + taken +
                         " would start it");
  }
  return {};
}

}  // namespace longhaul::scheduler::internal
