#include "scheduler/internal/round/one_gpu_victims.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

#include "scheduler/internal/placer.h"

namespace longhaul::scheduler::internal {

// A job of one task with at most one GPU. Its victim is the cheapest job that has such a place, so
// a sorted list replaces the search.
bool OneGpuVictims::Serves(const JobEntry& job) {
  if (job.request->groups.size() != 1) return false;
  const GroupRequest& group = job.request->groups[0];
  return group.desired == 1 && group.shape.needs_devices() && group.shape.gpus <= 1;
}

// Built once a round for each queue and priority, since rights depend on these. `plain` is false
// where shared GPUs or elastic jobs exist: there a slot may need several victims, or a part of one.
OneGpuVictims::Candidates& OneGpuVictims::CandidatesFor(const JobEntry& job) {
  const auto [found, fresh] =
      candidates_.try_emplace(std::make_pair(job.queue, job.request->priority));
  Candidates& candidates = found->second;
  if (!fresh) return candidates;
  for (const JobNumber number : state_.placed) {
    const JobEntry& other = state_.at(number);
    const auto& groups = other.request->groups;
    candidates.plain =
        candidates.plain && std::all_of(groups.begin(), groups.end(), [](const auto& group) {
          return group.shape.share == 0 && group.minimum == group.desired;
        });
    if (other.request->preemption == Preemption::kNever ||
        other.request->preemption == Preemption::kShrink) {
      continue;
    }
    candidates.queues[other.queue].jobs.emplace_back(LossOfStopping(state_, other), number);
  }
  for (auto& [queue, list] : candidates.queues) {
    std::sort(list.jobs.begin(), list.jobs.end(), [](const auto& a, const auto& b) {
      // Of equal costs the newest job first.
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
  }
  return candidates;
}

// Whether the job still runs and neither this round nor the limit of evictions protects it.
bool OneGpuVictims::IsUsable(const JobEntry& other) const {
  if (!other.placed || other.started_in_round == state_.rounds) return false;
  const Instant yesterday = state_.now - std::chrono::hours(24);
  const auto recent = std::count_if(other.evictions.begin(), other.evictions.end(),
                                    [&](Instant at) { return at > yesterday; });
  return recent < static_cast<std::ptrdiff_t>(state_.policy.evictions_a_day);
}

// Whether priority or the guarantee of its queue gives `job` the right to stop `other`.
bool OneGpuVictims::MayTake(const JobEntry& job, const spec::SharedAmounts& asked,
                            const JobEntry& other) const {
  if (state_.IsProtected(other, job.queue)) return false;
  if (other.queue == job.queue) return other.held_priority < job.request->priority;
  return state_.queues.reclaims(job.queue) &&
         state_.queues.MayReclaim(job.queue, asked, other.queue, other.held);
}

// Whether the quotas allow `job` once `other` has left.
bool OneGpuVictims::QuotasAllowWithout(const JobEntry& job, const JobEntry& other) {
  state_.queues.Remove(HeldBy(other));
  const bool allow = !state_.queues.Check(state_.MinimumOf(job)).has_value();
  state_.queues.Add(HeldBy(other));
  return allow;
}

// The first node of `other` on which `job` fits once `other` has left; the number of nodes if there
// is none.
NodeIndex OneGpuVictims::LandingWithout(const JobEntry& job, const JobEntry& other) {
  const Savepoint before = state_.resources.Save();
  std::vector<NodeIndex> nodes;
  for (const HeldTask& task : other.tasks) {
    nodes.push_back(state_.resources.task(task.slot).node);
    state_.resources.Remove(task.slot);
  }
  NodeIndex landing = state_.resources.size();
  for (const NodeIndex node : nodes) {
    if (SlotsFor(state_.resources, node, job.shapes[0], AdmitOf(state_, job), 1) > 0) {
      landing = std::min(landing, node);
    }
  }
  state_.resources.RollBack(before);
  return landing;
}

OneGpuVictims::Choice OneGpuVictims::Choose(const JobEntry& job) {
  // Which device model it would be on decides what it may take.
  if (!job.shapes_of_models.empty()) return {Outcome::kToSearch, {}, 0};
  Candidates& candidates = CandidatesFor(job);
  if (!candidates.plain) return {Outcome::kToSearch, {}, 0};
  const spec::SharedAmounts asked = state_.MinimumAmounts(job);
  const Shape& shape = state_.resources.shape(job.shapes[0]);
  const bool gpu_alone = shape.cpu_milli == 0 && shape.memory_mib == 0 &&
                         shape.gpu_memory_mib == 0 && shape.counted == decltype(shape.counted){};
  // (cost, -excess, queue, index), the cheapest on top.
  using Head = std::tuple<int64_t, int64_t, share::QueueIndex, size_t>;
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  const auto push = [&](share::QueueIndex queue, size_t index) {
    const auto& jobs = candidates.queues[queue].jobs;
    if (index >= jobs.size()) return;
    const int64_t excess = queue == job.queue ? 0 : state_.queues.ExcessShare(queue);
    heads.emplace(jobs[index].first, -excess, queue, index);
  };
  for (const auto& [queue, list] : candidates.queues) push(queue, list.next);
  while (!heads.empty()) {
    const auto [cost, excess, queue, index] = heads.top();
    heads.pop();
    push(queue, index + 1);
    OfQueue& list = candidates.queues[queue];
    const JobEntry* found = state_.jobs.Find(list.jobs[index].second);
    if (found == nullptr || !IsUsable(*found)) {
      // A job that is unusable now stays so for the round, so the start of the list moves past it.
      // A job that this claimant has no right to may serve another one and stays.
      if (index == list.next) ++list.next;
      continue;
    }
    const JobEntry& other = *found;
    if (!MayTake(job, asked, other)) continue;
    // A queue above its limit may need several jobs stopped, and they may lose less than one.
    if (!QuotasAllowWithout(job, other)) return {Outcome::kToSearch, {}, 0};
    const NodeIndex landing = LandingWithout(job, other);
    if (landing == state_.resources.size()) {
      if (!gpu_alone) return {Outcome::kToSearch, {}, 0};
      continue;
    }
    Choice choice{Outcome::kFound, {}, landing};
    choice.victim.job = other.number;
    choice.victim.means =
        other.request->preemption == Preemption::kSuspend ? Means::kSuspend : Means::kEvict;
    return choice;
  }
  return {Outcome::kNobody, {}, 0};
}

}  // namespace longhaul::scheduler::internal
