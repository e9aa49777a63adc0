#include "scheduler/internal/takeover/adoption.h"

#include <algorithm>

#include "base/hash.h"
#include "scheduler/internal/take_event.h"
#include "scheduler/internal/takeover/renumbering.h"

namespace longhaul::scheduler::internal {

namespace {

// Builds the new state from the old one as if its history had happened there. Jobs go through the
// same events as from outside, so all checks of events apply; the rest is copied field by field.
class Adoption {
 public:
  Adoption(const SchedulerState& before, SchedulerState& state,
           const std::function<void(JobRequest&)>& change)
      : before_(before),
        state_(state),
        change_(change),
        numbers_(*before.topology, *before.tree, *state.topology, *state.tree) {
    same_queues_ = SameQueues();
    old_of_.assign(state.resources.size(), std::nullopt);
    for (NodeIndex old = 0; old < before.resources.size(); ++old) {
      if (numbers_.Of(old) < state.resources.size()) old_of_[numbers_.Of(old)] = old;
    }
  }

  // Nodes and links before jobs, since a job cannot hold tasks on a node that is down. Reservations
  // and versions after jobs, since they refer to them.
  void Run() {
    TakeClocks();
    TakeShapes();
    TakeQueues();
    TakeNodes();
    TakeLinks();
    if (LinesFit()) TakeLines();
    for (const JobEntry* job : before_.jobs.InOrder()) TakeJob(*job);
    TakeUses();
    state_.next_job = before_.next_job;
    state_.next_transaction = before_.next_transaction;
    TakeReservations();
    TakeVersions();
    // The jobs' arrivals have been counted already.
    if (shapes_fit_) {
      state_.arrivals = before_.arrivals;
      state_.mix = before_.mix;
      state_.mix_version = before_.mix_version;
      state_.mix_arrivals = before_.mix_arrivals;
    }
    // To the unit: the same usage at the same rates.
    if (same_queues_ && whole_ && state_.policy.usage_half_life == before_.policy.usage_half_life) {
      state_.decayed = before_.decayed;
    }
  }

 private:
  bool SameQueues() const {
    if (before_.queues.size() != state_.queues.size()) return false;
    for (size_t q = 0; q < state_.queues.size(); ++q) {
      const auto queue = static_cast<share::QueueIndex>(q);
      if (before_.queues.name(queue) != state_.queues.name(queue)) return false;
    }
    return true;
  }

  void TakeClocks() {
    state_.now = before_.now;
    state_.began = before_.began;
    state_.rounds = before_.rounds;
    state_.expedites = before_.expedites;
    state_.planned_at = before_.planned_at;
    state_.overdue_noted = before_.overdue_noted;
    state_.grown_at = before_.grown_at;
    state_.defragmented_at = before_.defragmented_at;
    state_.moved_gpu_ms = before_.moved_gpu_ms;
    state_.durations = before_.durations;
    state_.rejections = before_.rejections;
    state_.input_hash = Hash64(std::string_view("rebuilt"), before_.input_hash ^ state_.input_hash);
  }

  // Under the same numbers, as long as half of all numbers are left for new ones.
  void TakeShapes() {
    shapes_fit_ = before_.resources.shape_count() <= kMaxShapes / 2;
    if (!shapes_fit_) return;
    for (uint32_t shape = 0; shape < before_.resources.shape_count(); ++shape) {
      state_.resources.Intern(before_.resources.shape(static_cast<ShapeId>(shape)));
    }
  }

  // With what was used at the rates until now: none is used by the new state before jobs come.
  void TakeQueues() {
    share::DecayedUsage used = before_.decayed;
    for (size_t q = 0; q < before_.queues.size(); ++q) {
      used.SetRate(q, 0, state_.now);
    }
    for (share::QueueIndex queue = 0; queue < static_cast<share::QueueIndex>(state_.queues.size());
         ++queue) {
      const share::QueueIndex old =
          queue == share::kRootQueue ? queue : before_.queues.Find(state_.queues.name(queue));
      if (old == share::kNoQueue) continue;
      state_.decayed.Inherit(static_cast<size_t>(queue), used, static_cast<size_t>(old));
    }
  }

  // Conditions are set without an event: what was down before is no new loss of its leaf.
  void TakeNodes() {
    spec::SharedAmounts capacity;
    for (NodeIndex node = 0; node < state_.resources.size(); ++node) {
      if (old_of_[node]) TakeNode(*old_of_[node], node);
      if (state_.resources.node(node).condition == spec::NodeCondition::kDown) continue;
      capacity += state_.model_dimensions.CapacityOf(state_.topology->kind_of(node));
    }
    state_.resources.Commit();
    state_.queues.SetCapacity(capacity);
    for (const auto& [leaf, losses] : before_.leaf_losses) {
      if (const auto now = numbers_.OfDomain(kLeafTier, leaf)) state_.leaf_losses[*now] = losses;
    }
  }

  void TakeNode(NodeIndex old, NodeIndex node) {
    state_.resources.SetCondition(node, before_.resources.node(old).condition);
    for (uint32_t device = 0; device < state_.resources.node(node).devices; ++device) {
      if ((before_.resources.node(old).unhealthy >> device & 1) == 0) continue;
      state_.resources.SetDeviceHealthy(node, device, false);
    }
    if (!before_.unhealthy.contains(old)) return;
    state_.resources.SetHealth(node, before_.resources.health(old));
    state_.faulted_at[node] = before_.faulted_at[old];
    state_.unhealthy.insert(node);
  }

  // After the jobs: others may use more than these leave, and no job loses its place by that.
  void TakeUses() {
    for (NodeIndex node = 0; node < state_.resources.size(); ++node) {
      if (!old_of_[node]) continue;
      NodeUse use = before_.resources.use(*old_of_[node]);
      use.gpus = state_.resources.ChooseForOthers(node, CountGpus(use.gpus), use.gpus);
      state_.resources.SetUse(node, use);
    }
    state_.resources.Commit();
  }

  void TakeLinks() {
    for (const auto& [domain, health] : before_.links) {
      const auto now = numbers_.OfDomain(domain.first, domain.second);
      if (now) state_.links[{domain.first, *now}] = health;
    }
  }

  // Lines are named by numbers of queues and shapes.
  bool LinesFit() const { return same_queues_ && shapes_fit_; }

  void TakeLines() {
    for (const Line& old : before_.lines) {
      state_.line_index[old.key] = static_cast<uint32_t>(state_.lines.size());
      Line& line = state_.lines.emplace_back();
      line.key = old.key;
      line.queue = old.queue;
      line.priority = old.priority;
    }
  }

  JobAdopted Event(const JobEntry& job) const {
    JobAdopted adopted;
    adopted.request = *job.request;
    if (change_) change_(adopted.request);
    const std::string& queue = adopted.request.queue;
    if (state_.queues.Find(queue) == share::kNoQueue) adopted.request.queue.clear();
    adopted.submitted = job.submitted;
    adopted.started = job.started;
    adopted.last_snapshot = job.last_snapshot;
    adopted.ran = job.ran;
    adopted.held_priority = job.held_priority;
    adopted.protected_until = job.protected_until;
    adopted.expedited = job.expedited;
    adopted.evictions = job.evictions;
    adopted.lost = job.lost;
    adopted.tasks = before_.PlacementsOf(job);
    for (TaskPlacement& task : adopted.tasks) task.node = numbers_.Of(task.node);
    for (const NodeIndex node : job.leaving_nodes) adopted.leaving.push_back(numbers_.Of(node));
    return adopted;
  }

  // The number is set before the event, so the job keeps it: orders and logs depend on numbers.
  void TakeJob(const JobEntry& job) {
    state_.next_job = job.number;
    TakeEvent(state_, Event(job));
    JobEntry* taken = state_.Find(job.request->id);
    if (taken == nullptr) {
      whole_ = false;
      return;
    }
    // A gang that had to stop, on nodes that are gone, has stopped.
    if (taken->leaving != job.leaving) {
      if (!taken->placed) state_.Dequeue(*taken);
      taken->leaving = job.leaving;
      if (!taken->placed) state_.Enqueue(*taken);
    }
    taken->moves = job.moves;
    taken->kept_idle_ms = job.kept_idle_ms;
    taken->block = job.block;
    if (job.placed) {
      TakePlaced(job, *taken);
    } else if (same_queues_ && taken->queue == job.queue) {
      // Its slack was judged by what was known when it came.
      Line& line = state_.lines[taken->line];
      line.jobs.erase({taken->line_place, taken->number});
      taken->line_place = job.line_place;
      line.jobs[{taken->line_place, taken->number}] = taken->number;
    }
  }

  void TakePlaced(const JobEntry& job, JobEntry& taken) {
    if (!taken.placed) return;
    taken.transaction = job.transaction;
    taken.started_in_round = job.started_in_round;
    taken.refusals = job.refusals;
    for (const NodeIndex node : job.refused_by) {
      if (numbers_.Of(node) < state_.resources.size()) taken.refused_by.insert(numbers_.Of(node));
    }
    if (!taken.lost.empty() && !job.lost.empty()) taken.lost_since = job.lost_since;
    if (taken.lost.size() == job.lost.size()) {
      taken.gpu_of_rank = job.gpu_of_rank;
    } else {
      whole_ = false;
    }
    for (HeldTask& task : taken.tasks) {
      const auto old = std::find_if(job.tasks.begin(), job.tasks.end(), [&](const HeldTask& each) {
        return each.rank == task.rank && each.group == task.group;
      });
      if (old != job.tasks.end()) task.stage = old->stage;
    }
    // The end as it was noted, not as it would be expected now: the next round then sees the same
    // order of ends.
    state_.ends.erase({taken.end_noted, taken.number});
    taken.end_noted = job.end_noted;
    state_.ends.insert({taken.end_noted, taken.number});
    if (!job.bind_by) return;
    taken.bind_by = *job.bind_by;
    state_.bind_deadlines.insert({*job.bind_by, taken.number});
  }

  std::optional<Reservation> Renamed(const Reservation& old) const {
    const JobEntry* job = state_.jobs.Find(old.job);
    if (job == nullptr || job->placed) return std::nullopt;
    if (state_.queues.CheckUser(state_.MinimumOf(*job)))
      return std::nullopt;  // by limits that are new
    auto now = numbers_.Of(old);
    if (now) now->queue = job->queue;
    return now;
  }

  void TakeReservations() {
    if (state_.policy.backfill == Backfill::kNone) return;
    std::map<share::QueueIndex, uint32_t> held;
    for (const auto& [number, old] : before_.reservations) {
      const auto now = Renamed(old);
      if (now && ++held[now->queue] <= state_.policy.reservations) {
        state_.reservations[number] = *now;
      }
    }
  }

  // What a line or a growth was last tried against counts as tried where nothing is new.
  void TakeVersions() {
    state_.quota_version = before_.quota_version;
    state_.reservation_version = before_.reservation_version;
    state_.started_version = before_.started_version;
    state_.idle_counted = before_.idle_counted;
    state_.claims_spared = before_.claims_spared;
    state_.freed_after_walk = before_.freed_after_walk;
    state_.planning_rounds = before_.planning_rounds;
    // Only if nothing differs may a line stay parked. Otherwise a new version of the quotas makes
    // every line be tried again.
    const bool same = numbers_.same() && LinesFit() && whole_ && !change_ &&
                      HashOf(before_.policy) == HashOf(state_.policy) && SameLimits();
    if (!same) {
      ++state_.quota_version;
      return;
    }
    if (before_.grown_seen == before_.Versions()) state_.grown_seen = state_.Versions();
    for (size_t i = 0; i < before_.lines.size(); ++i) {
      const Line& old = before_.lines[i];
      Line& line = state_.lines[i];
      line.promise = old.promise;
      line.promised_at = old.promised_at;
      line.parked = old.parked && old.parked_at == before_.Versions();
      line.parked_at = state_.Versions();
      line.preempt_parked =
          old.preempt_parked && old.preempt_parked_at == before_.PreemptVersions();
      line.preempt_parked_at = state_.PreemptVersions();
    }
  }

  bool SameLimits() const {
    for (size_t q = 0; q < state_.queues.size(); ++q) {
      const auto queue = static_cast<share::QueueIndex>(q);
      if (!(before_.queues.limit(queue) == state_.queues.limit(queue)) ||
          !(before_.queues.guarantee(queue) == state_.queues.guarantee(queue)) ||
          !(before_.queues.per_user(queue) == state_.queues.per_user(queue)) ||
          before_.queues.max_run_time(queue) != state_.queues.max_run_time(queue)) {
        return false;
      }
    }
    return true;
  }

  const SchedulerState& before_;
  SchedulerState& state_;
  const std::function<void(JobRequest&)>& change_;
  Renumbering numbers_;
  std::vector<std::optional<NodeIndex>> old_of_;  // by new number
  bool same_queues_ = false;
  bool shapes_fit_ = false;
  bool whole_ = true;  // every job as it was
};

}  // namespace

void TakeOver(const SchedulerState& before, SchedulerState& state,
              const std::function<void(JobRequest&)>& change) {
  Adoption(before, state, change).Run();
}

}  // namespace longhaul::scheduler::internal
