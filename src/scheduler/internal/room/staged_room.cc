#include "scheduler/internal/room/staged_room.h"

#include <algorithm>
#include <utility>

namespace longhaul::scheduler::internal {

namespace {

// With more jobs below the full parents, only the cheapest set of them is tried.
constexpr size_t kMostTogether = 32;

// The queues above the job's that pass their guarantees with it, without the root.
std::vector<share::QueueIndex> FullParents(const SchedulerState& state, const JobEntry& job) {
  std::vector<share::QueueIndex> full;
  const spec::SharedAmounts asked = state.MinimumAmounts(job);
  for (share::QueueIndex up = job.queue; up > share::kRootQueue; up = state.queues.parent(up)) {
    if (!state.queues.WithinGuarantee(up, asked)) full.push_back(up);
  }
  return full;
}

bool IsBelow(const share::QueueTree& queues, share::QueueIndex queue, share::QueueIndex above) {
  for (; queue > share::kRootQueue; queue = queues.parent(queue)) {
    if (queue == above) return true;
  }
  return false;
}

// Jobs that count as stopped while this exists.
class Gone {
 public:
  explicit Gone(SchedulerState& state) : state_(state), before_(state.resources.Save()) {}
  Gone(const Gone&) = delete;
  Gone& operator=(const Gone&) = delete;
  ~Gone() {
    for (const JobEntry* job : jobs_) {
      state_.queues.Add(HeldBy(*job));
      state_.placed.insert(job->number);
    }
    state_.resources.RollBack(before_);
  }

  void Add(const JobEntry& job) {
    jobs_.push_back(&job);
    state_.queues.Remove(HeldBy(job));
    state_.placed.erase(job.number);
    for (const HeldTask& task : job.tasks) state_.resources.Remove(task.slot);
  }

 private:
  SchedulerState& state_;
  Savepoint before_;
  std::vector<const JobEntry*> jobs_;
};

// A job whose own queue has a guarantee can be held up by a parent that is over its guarantee.
// First stops jobs below such parents until the job has the right to claim, then searches room with
// that right.
class StagedSearch {
 public:
  StagedSearch(SchedulerState& state, const JobEntry& job, Placer& placer)
      : state_(state), job_(job), placer_(placer) {}

  Room Run() {
    const std::vector<const JobEntry*> all = BelowFullParents();
    Room room = After(Cheapest(all));
    if (room.found || all.size() > kMostTogether) return room;
    // The job may need the nodes of dearer ones of them too.
    const int64_t steps = room.steps;
    room = After(all);
    room.steps += steps;
    if (room.found) Spare(all, room);
    return room;
  }

 private:
  // The jobs below the full parents that may be stopped, all together, the cheapest first.
  std::vector<const JobEntry*> BelowFullParents() const {
    const std::vector<share::QueueIndex> full = FullParents(state_, job_);
    std::vector<VictimCandidate> allowed =
        FindVictimCandidates(state_, job_, Rights::kOwn, false).jobs;
    std::erase_if(allowed, [&](const VictimCandidate& each) {
      return !each.may_stop || std::none_of(full.begin(), full.end(), [&](share::QueueIndex queue) {
        return IsBelow(state_.queues, each.job->queue, queue);
      });
    });
    std::sort(allowed.begin(), allowed.end(),
              [](const VictimCandidate& a, const VictimCandidate& b) {
                return a.cost != b.cost ? a.cost < b.cost : a.job->number > b.job->number;
              });
    std::vector<const JobEntry*> jobs;
    for (const VictimCandidate& each : allowed) jobs.push_back(each.job);
    return jobs;
  }

  // Whether the job's queue and those above are within their guarantees once these jobs are gone.
  bool GivesTheRight(const std::vector<const JobEntry*>& jobs) const {
    for (const JobEntry* each : jobs) state_.queues.Remove(HeldBy(*each));
    const bool gives = FullParents(state_, job_).empty();
    for (const JobEntry* each : jobs) state_.queues.Add(HeldBy(*each));
    return gives;
  }

  // The first of the jobs that give the right together, without those that are not needed for it.
  std::vector<const JobEntry*> Cheapest(const std::vector<const JobEntry*>& all) const {
    std::vector<const JobEntry*> some;
    for (const JobEntry* each : all) {
      if (GivesTheRight(some)) break;
      some.push_back(each);
    }
    for (size_t i = some.size(); i-- > 0;) {
      std::vector<const JobEntry*> fewer = some;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (GivesTheRight(fewer)) some = std::move(fewer);
    }
    return some;
  }

  // The room that is found once these jobs are gone, with them as the first victims.
  Room After(const std::vector<const JobEntry*>& jobs) {
    Room room;
    if (jobs.empty() || !GivesTheRight(jobs)) return room;
    {
      Gone gone(state_);
      for (const JobEntry* each : jobs) gone.Add(*each);
      room = FindRoom(state_, job_, Rights::kOwn, placer_);
    }
    room.proven = false;
    if (!room.found) return room;
    std::vector<ChosenVictim> victims;
    for (const JobEntry* each : jobs) {
      ChosenVictim& victim = victims.emplace_back();
      victim.job = each->number;
      victim.means =
          each->request->preemption == Preemption::kSuspend ? Means::kSuspend : Means::kEvict;
      room.cost_gpu_ms += LossOfStopping(state_, *each);
    }
    victims.insert(victims.end(), room.victims.begin(), room.victims.end());
    room.victims = std::move(victims);
    return room;
  }

  // Drops the jobs without which there is room as well, the dearest first.
  void Spare(std::vector<const JobEntry*> jobs, Room& room) {
    for (size_t i = jobs.size(); i-- > 0;) {
      std::vector<const JobEntry*> fewer = jobs;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      Room trial = After(fewer);
      trial.steps += room.steps;
      if (!trial.found) {
        room.steps = trial.steps;
        continue;
      }
      room = std::move(trial);
      jobs = std::move(fewer);
    }
  }

  SchedulerState& state_;
  const JobEntry& job_;
  Placer& placer_;
};

}  // namespace

bool IsHeldUpByParents(const SchedulerState& state, const JobEntry& job) {
  if (job.queue == share::kRootQueue || !state.queues.reclaims(job.queue)) return false;
  return state.queues.WithinGuarantee(job.queue, state.MinimumAmounts(job)) &&
         !FullParents(state, job).empty();
}

Room FindRoomInStages(SchedulerState& state, const JobEntry& job, Placer& placer) {
  return StagedSearch(state, job, placer).Run();
}

}  // namespace longhaul::scheduler::internal
