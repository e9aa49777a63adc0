#include "scheduler/internal/planning.h"

#include <algorithm>
#include <bit>
#include <map>

#include "scheduler/internal/reservation_idle.h"

namespace longhaul::scheduler::internal {

namespace {

// The walk looks at so many ends at most: a gang that needs more is far off, and its plan would be
// worth little.
constexpr size_t kMaxEnds = 8'192;

// Of so many running jobs all ends are expected anew for each plan.
constexpr size_t kFew = 512;

int32_t WholeFreeGpus(const State& state, int32_t host) {
  const NodeState& node = state.node(static_cast<NodeIndex>(host));
  return node.ready() ? std::popcount(node.free_gpus) : 0;
}

// What happens on the way: tasks of `job` leave, or an earlier reservation's tasks come or go.
struct Happening {
  Instant at;
  enum class Kind : uint8_t { kEnd, kReservedStart, kReservedEnd } kind;
  JobNumber job;
  friend auto operator<=>(const Happening&, const Happening&) = default;
};

// What happens from now on, in order, as far as one looks. Ends are noted ones; the late ones are
// worked out for all.
class Future {
 public:
  Future(SchedulerState& state, const JobEntry& job, bool late) : state_(state) {
    for (const auto& [number, reservation] : state.reservations) {
      if (number == job.number || GoesBefore(state, job, state.at(number))) continue;
      others_.push_back({reservation.start, Happening::Kind::kReservedStart, number});
      others_.push_back({reservation.end, Happening::Kind::kReservedEnd, number});
    }
    if (late) {
      for (const JobNumber number : state.placed) {
        others_.push_back(
            {state.ExpectedEnd(state.at(number), true), Happening::Kind::kEnd, number});
      }
      next_end_ = state.ends.end();
    } else {
      // What is overdue is expected anew; all of it where that costs little.
      const bool few = state.placed.size() <= kFew;
      std::vector<JobNumber> overdue;
      for (auto at = state.ends.begin(); at != state.ends.end() && (few || at->first <= state.now);
           ++at) {
        overdue.push_back(at->second);
      }
      for (const JobNumber number : overdue) state.NoteEnd(state.at(number));
      next_end_ = state.ends.begin();
    }
    std::sort(others_.begin(), others_.end());
  }

  // Merges the ordered ends of the state with the sorted list of other happenings, so that the ends
  // need not be copied.
  std::optional<Happening> Peek() const {
    if (seen_ >= kMaxEnds) return std::nullopt;
    std::optional<Happening> next;
    if (next_end_ != state_.ends.end()) {
      next = Happening{next_end_->first, Happening::Kind::kEnd, next_end_->second};
    }
    if (next_other_ < others_.size() && (!next || others_[next_other_] < *next)) {
      next = others_[next_other_];
    }
    return next;
  }

  void Pop() {
    const Happening next = *Peek();
    ++seen_;
    if (next_other_ < others_.size() && others_[next_other_] == next) {
      ++next_other_;
    } else {
      ++next_end_;
    }
  }

 private:
  const SchedulerState& state_;
  std::set<std::pair<Instant, JobNumber>>::const_iterator next_end_;
  std::vector<Happening> others_;
  size_t next_other_ = 0;
  size_t seen_ = 0;
};

std::vector<int32_t> MinimumCounts(const JobEntry& job) {
  std::vector<int32_t> counts;
  for (const GroupRequest& group : job.request->groups) counts.push_back(group.minimum);
  return counts;
}

bool WholeGpus(const JobEntry& job) {
  return std::all_of(job.request->groups.begin(), job.request->groups.end(),
                     [](const GroupRequest& group) { return group.shape.share == 0; }) &&
         std::any_of(job.request->groups.begin(), job.request->groups.end(),
                     [](const GroupRequest& group) { return group.shape.gpus > 0; });
}

// The largest group decides what one task of the reservation is.
size_t Largest(const JobEntry& job) { return static_cast<size_t>(LargestGroup(*job.request)); }

// Its tasks in units of the largest group's tasks, rounded up.
int64_t TasksNeeded(const JobEntry& job) {
  int64_t gpus = 0;
  for (const GroupRequest& group : job.request->groups) {
    gpus += int64_t{group.shape.gpus} * group.minimum;
  }
  const int64_t each = job.request->groups[Largest(job)].shape.gpus;
  return (gpus + each - 1) / each;
}

// The future, on the state itself: what happens is undone at the end.
class Walk {
 public:
  Walk(SchedulerState& state, Placer& placer)
      : state_(state), placer_(placer), before_(state.resources.Save()) {}
  ~Walk() { state_.resources.RollBack(before_); }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  void Apply(const Happening& happening) {
    const JobEntry& job = state_.at(happening.job);
    switch (happening.kind) {
      case Happening::Kind::kEnd:
        for (const HeldTask& task : job.tasks) state_.resources.Remove(task.slot);
        break;
      case Happening::Kind::kReservedStart: {
        const Reservation& reservation = state_.reservations.at(job.number);
        Bounds bounds;
        bounds.within_tier = reservation.tier;
        bounds.within_domain = reservation.domain;
        bounds.plan = true;
        // It fails when its plan has gone stale; then it takes nothing here either.
        placer_.Place(state_, job, MinimumCounts(job), bounds, Admit::kReady,
                      reserved_[job.number]);
        break;
      }
      case Happening::Kind::kReservedEnd:
        for (const HeldTask& task : reserved_[job.number]) state_.resources.Remove(task.slot);
        reserved_.erase(job.number);
        break;
    }
  }

 private:
  SchedulerState& state_;
  Placer& placer_;
  Savepoint before_;
  std::map<JobNumber, std::vector<HeldTask>> reserved_;
};

// The domain that holds a placement: the required one, else the whole cluster, whose hosts stay
// open until the start.
void HoldDomain(const SchedulerState& state, const JobEntry& job, std::span<const HeldTask> tasks,
                Reservation& reservation) {
  Tier tier = job.request->required;
  if (job.request->groups.size() == 1) tier = std::min(tier, job.request->groups[0].required);
  const auto host = static_cast<int32_t>(state.resources.task(tasks[0].slot).node);
  reservation.tier = tier;
  reservation.domain = tier == kClusterTier ? 0
                       : tier == kHostTier  ? host
                                            : state.tree->DomainOf(tier, host);
  reservation.first_host = state.tree->FirstHost(tier, reservation.domain);
}

// GPUs that the tasks take on each host.
std::map<int32_t, int32_t> GpusTaken(const State& state, std::span<const HeldTask> tasks) {
  std::map<int32_t, int32_t> taken;
  for (const HeldTask& task : tasks) {
    const TaskRecord& record = state.task(task.slot);
    taken[static_cast<int32_t>(record.node)] += std::popcount(record.gpus);
  }
  return taken;
}

// Tasks that fit the reservation's domain at its start, once `taken` is gone, with at most so many
// in each domain of the group's spread. Requires a group that is spread.
int64_t FitsSpread(const DomainTree& tree, const GroupRequest& group,
                   const Reservation& reservation, const std::map<int32_t, int32_t>& taken) {
  int64_t fits = 0;
  int32_t room = 0;  // in the present domain of the spread
  int32_t domain = -1;
  for (size_t i = 0; i < reservation.gpus_at_start.size(); ++i) {
    const int32_t host = reservation.first_host + static_cast<int32_t>(i);
    if (tree.DomainOf(group.spread_tier, host) != domain) room = group.max_per_domain;
    domain = tree.DomainOf(group.spread_tier, host);
    const auto gone = taken.find(host);
    const int32_t gpus = reservation.gpus_at_start[i] - (gone == taken.end() ? 0 : gone->second);
    const int32_t tasks = std::min(std::max(0, gpus) / reservation.gpus_a_task, room);
    fits += tasks;
    room -= tasks;
  }
  return fits;
}

// The only group of a job, if it is spread.
const GroupRequest* SpreadGroup(const JobEntry& job) {
  const auto& groups = job.request->groups;
  return groups.size() == 1 && groups[0].is_spread() ? groups.data() : nullptr;
}

// Counts what the domain has free at the start, and what the job leaves of it. Requires that the
// job is not in the state.
void CountFree(const SchedulerState& state, const JobEntry& job, Reservation& reservation) {
  const int32_t last = state.tree->LastHost(reservation.tier, reservation.domain);
  reservation.spare = -TasksNeeded(job);
  for (int32_t host = reservation.first_host; host < last; ++host) {
    const int32_t gpus = WholeFreeGpus(state.resources, host);
    reservation.gpus_at_start.push_back(static_cast<int16_t>(gpus));
    reservation.spare += gpus / reservation.gpus_a_task;
  }
  if (const GroupRequest* group = SpreadGroup(job)) {
    reservation.spare = FitsSpread(*state.tree, *group, reservation, {}) - TasksNeeded(job);
  }
}

// Tasks of the reservation that no longer fit once `taken` is gone.
int64_t LossOf(const SchedulerState& state, const Reservation& reservation,
               const std::map<int32_t, int32_t>& taken) {
  if (const GroupRequest* group = SpreadGroup(state.at(reservation.job))) {
    return FitsSpread(*state.tree, *group, reservation, {}) -
           FitsSpread(*state.tree, *group, reservation, taken);
  }
  int64_t loss = 0;
  const auto hosts = static_cast<int32_t>(reservation.gpus_at_start.size());
  for (const auto& [host, gpus] : taken) {
    const int32_t at = host - reservation.first_host;
    if (at < 0 || at >= hosts) continue;
    const int32_t before = reservation.gpus_at_start[static_cast<size_t>(at)];
    const int32_t after = std::max(0, before - gpus);
    loss += before / reservation.gpus_a_task - after / reservation.gpus_a_task;
  }
  return loss;
}

}  // namespace

bool GoesBefore(const SchedulerState& state, const JobEntry& job, const JobEntry& holder) {
  if (job.expedited != holder.expedited) return job.expedited > holder.expedited;
  if (job.queue == holder.queue) return state.Before(job, holder);
  const bool overdue = state.IsOverdue(job);
  if (overdue != state.IsOverdue(holder)) return overdue;
  if (overdue)
    return std::pair(job.waits_since(), job.number) <
           std::pair(holder.waits_since(), holder.number);
  return state.queues.WithinGuarantee(job.queue, state.MinimumAmounts(job)) &&
         !state.queues.WithinGuarantee(holder.queue, state.MinimumAmounts(holder));
}

std::optional<Reservation> PlanReservation(SchedulerState& state, const JobEntry& job,
                                           Placer& placer, bool late) {
  if (!WholeGpus(job)) return std::nullopt;
  Future future(state, job, late);
  Walk walk(state, placer);
  const std::vector<int32_t> counts = MinimumCounts(job);
  Bounds anywhere;
  anywhere.plan = true;
  const Duration length = state.ExpectedRun(job).median;
  const size_t group = Largest(job);
  const GroupRequest& largest = job.request->groups[group];
  Instant at = state.now;
  for (;;) {
    // Everything of one instant happens before a start at it.
    for (auto next = future.Peek(); next && next->at <= at; next = future.Peek()) {
      walk.Apply(*next);
      future.Pop();
    }
    // The total of the slots is checked before the placement, which is much more expensive and
    // would fail at most steps of the walk.
    const SlotTable& table = state.tables.Of(state.resources, job.shapes[group], Admit::kReady);
    std::vector<HeldTask> tasks;
    if (table.total() >= largest.minimum &&
        placer.Place(state, job, counts, anywhere, Admit::kReady, tasks)) {
      const auto taken = GpusTaken(state.resources, tasks);
      // The plan must not delay reservations that begin later, unless the job goes before their
      // holders. Earlier ones have been placed in the state by the walk.
      const bool harmless =
          std::all_of(state.reservations.begin(), state.reservations.end(), [&](const auto& entry) {
            const Reservation& other = entry.second;
            return other.job == job.number || other.start <= at || at + length <= other.start ||
                   GoesBefore(state, job, state.at(other.job)) ||
                   LossOf(state, other, taken) <= other.spare;
          });
      if (harmless) {
        Reservation reservation;
        reservation.job = job.number;
        reservation.queue = job.queue;
        reservation.start = at;
        reservation.planned_at = state.now;
        reservation.end = at + length;
        reservation.gpus_a_task = largest.shape.gpus;
        HoldDomain(state, job, tasks, reservation);
        // The reservation counts what the domain has free without the job, so that later starts are
        // compared with the same counts.
        for (const HeldTask& task : tasks) state.resources.Remove(task.slot);
        CountFree(state, job, reservation);
        return reservation;
      }
      for (const HeldTask& task : tasks) state.resources.Remove(task.slot);
    }
    const auto next = future.Peek();
    if (!next) return std::nullopt;
    at = std::max(at, next->at);
  }
}

Instant EndOfStart(const SchedulerState& state, const JobEntry& job) {
  return state.now + state.ExpectedRun(job).median;
}

Instant EndOfMoved(const SchedulerState& state, const JobEntry& job) {
  return std::max(state.now, state.ExpectedEnd(job, true)) + job.request->restart_cost;
}

JobNumber ForbiddenBy(const SchedulerState& state, const JobEntry& job,
                      std::span<const HeldTask> tasks, JobNumber ignored) {
  if (state.reservations.empty()) return kNoJob;
  const Instant end = EndOfStart(state, job);
  std::map<int32_t, int32_t> taken;
  for (const auto& [holder, reservation] : state.reservations) {
    if (holder == job.number || holder == ignored || end <= reservation.start) continue;
    if (GoesBefore(state, job, state.at(holder))) continue;
    if (HasKeptTooMuchIdle(state, state.at(holder))) continue;
    if (taken.empty()) taken = GpusTaken(state.resources, tasks);
    // A spare below zero counts as none, so a start that takes nothing from the reservation is
    // never forbidden.
    if (LossOf(state, reservation, taken) > std::max<int64_t>(0, reservation.spare)) return holder;
  }
  return kNoJob;
}

JobNumber MoveForbiddenBy(const SchedulerState& state, Instant end, std::span<const HeldTask> tasks,
                          JobNumber ignored) {
  if (state.reservations.empty()) return kNoJob;
  const std::map<int32_t, int32_t> taken = GpusTaken(state.resources, tasks);
  for (const auto& [holder, reservation] : state.reservations) {
    if (holder == ignored || end <= reservation.start) continue;
    if (LossOf(state, reservation, taken) > std::max<int64_t>(0, reservation.spare)) return holder;
  }
  return kNoJob;
}

void ChargeReservations(SchedulerState& state, JobNumber job, Instant end,
                        std::span<const HeldTask> tasks) {
  if (state.reservations.empty()) return;
  const auto taken = GpusTaken(state.resources, tasks);
  for (auto& [holder, reservation] : state.reservations) {
    if (holder == job || end <= reservation.start) continue;
    reservation.spare -= LossOf(state, reservation, taken);
    const auto hosts = static_cast<int32_t>(reservation.gpus_at_start.size());
    for (const auto& [host, gpus] : taken) {
      const int32_t at = host - reservation.first_host;
      if (at < 0 || at >= hosts) continue;
      int16_t& left = reservation.gpus_at_start[static_cast<size_t>(at)];
      left = static_cast<int16_t>(std::max(0, left - gpus));
    }
  }
}

}  // namespace longhaul::scheduler::internal
