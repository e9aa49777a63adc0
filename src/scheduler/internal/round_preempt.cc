// Room for those who have a right to it.
#include <algorithm>
#include <queue>
#include <tuple>

#include "base/check.h"
#include "scheduler/internal/rank_places.h"
#include "scheduler/internal/round.h"

namespace longhaul::scheduler::internal {

namespace {

bool IsOneGpu(const JobEntry& job) {
  if (job.request->groups.size() != 1) return false;
  const GroupRequest& group = job.request->groups[0];
  return group.desired == 1 && group.shape.needs_devices() && group.shape.gpus <= 1;
}

}  // namespace

void Round::MakeRoom() {
  if (!state_.policy.preempt) return;
  share::FairOrder order = OrderNow(true);
  for (share::QueueIndex queue = order.Next(); queue != share::kNoQueue && steps_ > 0;
       queue = order.Next()) {
    const JobNumber head = HeadOf(queue, true);
    if (head == kNoJob) {
      order.Close(queue);
      continue;
    }
    JobEntry& job = state_.at(head);
    const uint32_t line = job.line;
    const size_t said = decisions_.size();
    if (TryMakeRoom(job)) {
      order.Refresh(queue);
      for (size_t i = said; i < decisions_.size(); ++i) {
        if (const JobEntry* changed = state_.Find(decisions_[i].job)) order.Refresh(changed->queue);
      }
      continue;
    }
    state_.lines[line].preempt_parked = true;
    state_.lines[line].preempt_parked_at = state_.PreemptVersions();
  }
}

void Round::Stop(JobNumber number, const ChosenVictim& how, const JobEntry& winner,
                 uint64_t transaction) {
  JobEntry& victim = state_.at(number);
  const std::string reason = "makes room for " + winner.request->id.value();
  if (how.means == Means::kShrink) {
    Decision& shrink = Say(DecisionKind::kShrink, transaction, victim);
    shrink.reason = reason;
    for (size_t i = victim.tasks.size(); i-- > 0;) {
      const HeldTask task = victim.tasks[i];
      if (!std::binary_search(how.ranks.begin(), how.ranks.end(), task.rank)) continue;
      const TaskRecord& record = state_.resources.task(task.slot);
      shrink.tasks.push_back({task.group, task.rank, record.node, record.gpus});
      state_.Drop(victim, i);
    }
    state_.resources.Commit();
    state_.Renumber(victim);
    LayRanks(state_, victim, victim.tasks, false);
    shrink.ranks = GpusOfRanks(state_, victim);
    return;
  }
  Decision& stop = Say(how.means == Means::kSuspend ? DecisionKind::kSuspend : DecisionKind::kEvict,
                       transaction, victim);
  stop.tasks = state_.PlacementsOf(victim);
  stop.reason = reason;
  std::erase_if(victim.evictions,
                [&](Instant at) { return at + std::chrono::hours(24) <= state_.now; });
  victim.evictions.push_back(state_.now);
  state_.Requeue(victim, true);
}

// No round undoes its own work. What it has begun is there for the taking in the next one, which
// would not look again unless something else had changed.
void Round::NoteSpared(const JobEntry& job) {
  if (state_.claims_spared || !MayClaim(state_, job)) return;
  state_.claims_spared = std::any_of(begun_.begin(), begun_.end(), [&](JobNumber number) {
    const JobEntry& other = state_.at(number);
    return other.placed && number != job.number && MayTakeFrom(state_, job, other);
  });
}

bool Round::TryMakeRoom(JobEntry& job) {
  if (FindsRoom(job)) return true;
  if (!job.leaving && state_.policy.preempt && job.block.kind != Block::Kind::kReservation) {
    NoteSpared(job);
  }
  return false;
}

bool Round::FindsRoom(JobEntry& job) {
  if (job.leaving || !state_.policy.preempt || !MayClaim(state_, job)) return false;
  // Room there is; it is held for somebody who goes before.
  if (job.block.kind == Block::Kind::kReservation) return false;
  if (IsOneGpu(job)) {
    --steps_;
    const OneGpu taken = TakeOneGpu(job, MinimumAmounts(*job.request));
    if (taken != OneGpu::kToSearch) return taken == OneGpu::kStarted;
  }
  const Room room = FindRoom(state_, job, Rights::kOwn, placer_);
  steps_ -= 1 + room.steps / 100;
  if (!room.found) return false;
  if (room.victims.empty()) return TryStart(job);  // others have made room
  MakeTheRoom(job, room, state_.next_transaction);
  return true;
}

Round::OneGpuVictims& Round::VictimsOf(const JobEntry& job) {
  const auto [found, fresh] =
      one_gpu_.try_emplace(std::make_pair(job.queue, job.request->priority));
  OneGpuVictims& victims = found->second;
  if (!fresh) return victims;
  for (const JobNumber number : state_.placed) {
    const JobEntry& other = state_.at(number);
    const auto& groups = other.request->groups;
    victims.plain = victims.plain && std::all_of(groups.begin(), groups.end(), [](const auto& g) {
                      return g.shape.share == 0 && g.minimum == g.desired;
                    });
    if (other.request->preemption == Preemption::kNever ||
        other.request->preemption == Preemption::kShrink) {
      continue;
    }
    victims.queues[other.queue].jobs.emplace_back(LossOfStopping(state_, other), number);
  }
  for (auto& [queue, list] : victims.queues) {
    std::sort(list.jobs.begin(), list.jobs.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
  }
  return victims;
}

bool Round::MayTake(const JobEntry& job, const spec::SharedAmounts& asked,
                    const JobEntry& other) const {
  if (other.held_priority > kMaxPriority) return false;  // an operator has put it first
  if (other.queue == job.queue) return other.held_priority < job.request->priority;
  return state_.queues.reclaims(job.queue) &&
         state_.queues.MayReclaim(job.queue, asked, other.queue, other.held);
}

// Proof: with the victim gone a node of its tasks has the GPU, and quotas allow it.
NodeIndex Round::LandingWithout(const JobEntry& job, const spec::SharedAmounts& asked,
                                const JobEntry& other) {
  const Savepoint before = state_.resources.Save();
  std::vector<NodeIndex> nodes;
  for (const HeldTask& task : other.tasks) {
    nodes.push_back(state_.resources.task(task.slot).node);
    state_.resources.Remove(task.slot);
  }
  state_.queues.Remove(other.queue, other.held);
  const bool quota = !state_.queues.Check(job.queue, asked).has_value();
  state_.queues.Add(other.queue, other.held);
  NodeIndex landing = state_.resources.size();
  for (const NodeIndex node : nodes) {
    if (quota && SlotsFor(state_.resources, node, job.shapes[0], AdmitOf(state_, job), 1) > 0) {
      landing = std::min(landing, node);
    }
  }
  state_.resources.RollBack(before);
  return landing;
}

// For one GPU the cheapest victim that holds a GPU is the optimum, and there is nothing to
// search; of equal ones, who is in the queue that holds most beyond its guarantee. Where GPUs are
// shared, jobs shrink, or a task needs more than its GPU, that is so when the cheapest victim of
// all serves.
Round::OneGpu Round::TakeOneGpu(JobEntry& job, const spec::SharedAmounts& asked) {
  OneGpuVictims& victims = VictimsOf(job);
  if (!victims.plain) return OneGpu::kToSearch;
  const Shape& shape = state_.resources.shape(job.shapes[0]);
  const bool gpu_alone = shape.cpu_milli == 0 && shape.memory_mib == 0 &&
                         shape.gpu_memory_mib == 0 && shape.counted == decltype(shape.counted){};
  const Instant yesterday = state_.now - std::chrono::hours(24);
  const auto usable = [&](const JobEntry& other) {
    if (!other.placed || other.number == job.number) return false;
    if (other.started_in_round == state_.rounds) return false;
    const auto recent = std::count_if(other.evictions.begin(), other.evictions.end(),
                                      [&](Instant at) { return at > yesterday; });
    return recent < static_cast<std::ptrdiff_t>(state_.policy.evictions_a_day);
  };
  // (cost, -excess, queue, index), the cheapest on top.
  using Head = std::tuple<int64_t, int64_t, share::QueueIndex, size_t>;
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  const auto push = [&](share::QueueIndex queue, size_t index) {
    const auto& jobs = victims.queues[queue].jobs;
    if (index >= jobs.size()) return;
    const int64_t excess = queue == job.queue ? 0 : state_.queues.ExcessShare(queue);
    heads.emplace(jobs[index].first, -excess, queue, index);
  };
  for (const auto& [queue, list] : victims.queues) push(queue, list.next);
  while (!heads.empty()) {
    const auto [cost, excess, queue, index] = heads.top();
    heads.pop();
    push(queue, index + 1);
    OneGpuVictims::OfQueue& list = victims.queues[queue];
    const auto at = state_.jobs.find(list.jobs[index].second);
    if (at == state_.jobs.end() || !usable(at->second)) {
      if (index == list.next) ++list.next;
      continue;
    }
    const JobEntry& other = at->second;
    if (!MayTake(job, asked, other)) continue;
    const NodeIndex landing = LandingWithout(job, asked, other);
    if (landing == state_.resources.size()) {
      if (!gpu_alone) return OneGpu::kToSearch;
      continue;
    }
    ChosenVictim victim;
    victim.job = other.number;
    victim.means =
        other.request->preemption == Preemption::kSuspend ? Means::kSuspend : Means::kEvict;
    Stop(victim.job, victim, job, state_.next_transaction);
    const GpuMask gpus = state_.resources.ChooseGpus(landing, job.shapes[0]);
    const TaskSlot slot = state_.resources.Place(landing, job.shapes[0], gpus, job.number);
    Start(job, {{0, 0, slot, Stage::kAssumed}});
    return OneGpu::kStarted;
  }
  return OneGpu::kNobody;
}

}  // namespace longhaul::scheduler::internal
