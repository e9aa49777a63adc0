#include "scheduler/internal/round/elastic_growth.h"

#include <algorithm>
#include <numeric>

#include "scheduler/gang/elastic_counts.h"
#include "scheduler/gang/goodput.h"
#include "scheduler/internal/planning.h"
#include "scheduler/internal/rank_places.h"

namespace longhaul::scheduler::internal {

namespace {

// Steps of the exact table. Beyond them, counts are chosen by marginal values and exchanges.
constexpr int64_t kSteps = 5'000'000;
// A shrunk job restarts too: shrinking has to gain at least this part of all values.
constexpr int64_t kWorthShrinking = 50;

int32_t TasksOf(const JobEntry& job) { return static_cast<int32_t>(job.tasks.size()); }

// Whether the job is elastic in its GPUs, complete and confirmed.
bool MayChange(const JobEntry& job) {
  const GroupRequest& group = job.request->groups[0];
  return job.request->groups.size() == 1 && group.desired > group.minimum && group.shape.gpus > 0 &&
         job.lost.empty() && !job.bind_by && !job.leaving;
}

// The value of each count that is allowed for a job, and of its present count.
struct Choice {
  JobNumber job = kNoJob;
  ElasticJob options;
  std::vector<int32_t> counts;
  int64_t value_now = 0;
};

// The counts ascend, as ChooseElasticCounts requires. The loop ends at the first count that the
// quotas do not allow, because larger ones need more.
Choice ChoicesOf(const SchedulerState& state, const share::QueueTree& queues, const JobEntry& job,
                 bool may_shrink) {
  const GroupRequest& group = job.request->groups[0];
  Choice choice;
  choice.job = job.number;
  const double remaining = ToSeconds(state.ExpectedEnd(job) - state.now);
  const double restart = ToSeconds(job.request->restart_cost);
  const bool shrinks = may_shrink && job.request->preemption != Preemption::kNever;
  for (int32_t step = 0, count = group.minimum; count <= group.desired;
       ++step, count += group.step) {
    if (count < TasksOf(job) && !shrinks) continue;
    const int32_t more = count - (may_shrink ? group.minimum : TasksOf(job));
    if (count > TasksOf(job) && queues.Check(PartOf(job, state.AmountsBeside(job, more)))) break;
    const double speed = group.speed_milli.empty()
                             ? static_cast<double>(count) / group.minimum
                             : group.speed_milli[static_cast<size_t>(step)] / 1'000.0;
    const int64_t value =
        ElasticValue(ElasticAim::kHarmonicMean, speed, count != TasksOf(job), remaining, restart);
    if (count == TasksOf(job)) choice.value_now = value;
    choice.options.options.push_back({count * group.shape.gpus, value});
    choice.counts.push_back(count);
  }
  return choice;
}

struct Plan {
  std::vector<std::pair<JobNumber, int32_t>> counts;  // of the jobs that change
  int64_t gain = 0;
  int64_t value = 0;
  bool shrinks = false;
};

Plan MakePlan(const SchedulerState& state, const std::vector<JobNumber>& jobs, bool may_shrink) {
  std::vector<ElasticJob> options;
  std::vector<Choice> choices;
  int64_t gpus = state.resources.cluster().free_gpus;
  Plan plan;
  // With shrinking, each job is checked against the quotas as if all had shrunk to their minimum.
  // The sum of all jobs is checked with the whole plan (Lands, GrowBy).
  share::QueueTree queues = state.queues;
  for (const JobNumber number : jobs) {
    const JobEntry& job = state.at(number);
    const GroupRequest& group = job.request->groups[0];
    if (!may_shrink) break;
    queues.Remove(PartOf(job, state.AmountsOfLast(job, TasksOf(job) - group.minimum)));
  }
  for (const JobNumber number : jobs) {
    const JobEntry& job = state.at(number);
    Choice choice = ChoicesOf(state, queues, job, may_shrink);
    if (choice.counts.empty()) continue;
    gpus += int64_t{TasksOf(job)} * job.request->groups[0].shape.gpus;
    options.push_back(choice.options);
    // The capacity is what is free and what the jobs hold now: a plan divides both anew.
    plan.gain -= choice.value_now;
    choices.push_back(std::move(choice));
  }
  const ElasticAnswer answer = ChooseElasticCounts(options, gpus, kSteps);
  plan.value = answer.value;
  plan.gain += answer.value;
  for (size_t i = 0; i < choices.size() && answer.feasible; ++i) {
    const int32_t count = choices[i].counts[static_cast<size_t>(answer.choices[i])];
    const int32_t has = TasksOf(state.at(choices[i].job));
    if (count == has) continue;
    plan.counts.emplace_back(choices[i].job, count);
    plan.shrinks |= count < has;
  }
  return plan;
}

// The ranks of `tasks` further tasks of the job.
std::vector<int32_t> NextRanks(const JobEntry& job, int32_t tasks) {
  std::vector<int32_t> ranks(static_cast<size_t>(tasks));
  std::iota(ranks.begin(), ranks.end(), TasksOf(job));
  return ranks;
}

}  // namespace

void ElasticGrowth::Run() {
  SchedulerState& state = context_.state;
  if (state.now - state.grown_at < state.policy.elastic_period) return;
  state.grown_at = state.now;
  state.grown_seen = state.Versions();
  if (state.elastic.empty()) return;
  std::vector<JobNumber> jobs;
  for (const JobNumber number : state.placed) {
    if (MayChange(state.at(number))) jobs.push_back(number);
  }
  if (jobs.empty()) return;
  --context_.steps_left;
  // Two plans: growth alone, and growth that may shrink others. The second one costs restarts, so
  // it must gain clearly more, and is carried out only if all its parts find places together.
  Plan plan = MakePlan(state, jobs, false);
  const Plan other = MakePlan(state, jobs, true);
  if (other.shrinks && (other.gain - plan.gain) * kWorthShrinking > std::abs(plan.value) &&
      Lands(other.counts)) {
    plan = other;
  }
  // A waiting job may have a right to what elastic jobs receive now: the next round tries it.
  if (!plan.counts.empty() && state.placed.size() < state.jobs.size()) state.claims_spared = true;
  for (const auto& [number, count] : plan.counts) {
    JobEntry& job = state.at(number);
    if (count < TasksOf(job)) ShrinkBy(job, TasksOf(job) - count);
  }
  for (const auto& [number, count] : plan.counts) {
    if (context_.steps_left <= 0) return;
    JobEntry& job = state.at(number);
    const int32_t step = job.request->groups[0].step;
    // Fewer tasks where rules or reservations do not allow all of them.
    for (int32_t more = count - TasksOf(job); more > 0 && !GrowBy(job, more); more -= step) {
      --context_.steps_left;
    }
  }
}

// Whether all jobs that grow find places once the others have shrunk. Leaves the state as before.
bool ElasticGrowth::Lands(const Counts& counts) {
  SchedulerState& state = context_.state;
  const Savepoint before = state.resources.Save();
  share::QueueTree queues = state.queues;
  for (const auto& [number, count] : counts) {
    const JobEntry& job = state.at(number);
    if (count < TasksOf(job)) {
      queues.Remove(PartOf(job, state.AmountsOfLast(job, TasksOf(job) - count)));
    }
    for (auto i = static_cast<size_t>(std::max(count, 0)); i < job.tasks.size(); ++i) {
      state.resources.Remove(job.tasks[i].slot);
    }
  }
  bool lands = true;
  for (const auto& [number, count] : counts) {
    const JobEntry& job = state.at(number);
    if (count <= TasksOf(job)) continue;
    const auto more = PartOf(job, state.AmountsBeside(job, count - TasksOf(job)));
    lands = lands && !queues.Check(more).has_value();
    if (!lands) break;
    queues.Add(more);
    std::vector<HeldTask> placed;
    lands = context_.placer.PlaceMore(state, job, 0, NextRanks(job, count - TasksOf(job)),
                                      Admit::kReady, placed) &&
            ForbiddenBy(state, job, placed) == kNoJob;
  }
  state.resources.RollBack(before);
  return lands;
}

void ElasticGrowth::ShrinkBy(JobEntry& job, int32_t tasks) {
  SchedulerState& state = context_.state;
  Decision& shrink = context_.AddDecision(DecisionKind::kShrink, job.transaction, job);
  shrink.reason = "its GPUs are worth more to another elastic job";
  // The highest ranks leave, so the ranks of the rest stay dense.
  for (int32_t i = 0; i < tasks; ++i) {
    shrink.tasks.push_back(context_.PlacementOf(job.tasks.back()));
    state.Drop(job, job.tasks.size() - 1);
  }
  state.resources.Commit();
  LayRanks(state, job, job.tasks, false);
  shrink.ranks = GpusOfRanks(state, job);
}

// Whether quota, rules and reservations allow so many tasks more; then the job has them.
bool ElasticGrowth::GrowBy(JobEntry& job, int32_t tasks) {
  SchedulerState& state = context_.state;
  if (state.queues.Check(PartOf(job, state.AmountsBeside(job, tasks)))) return false;
  const Savepoint before = state.resources.Save();
  std::vector<HeldTask> placed;
  if (!context_.placer.PlaceMore(state, job, 0, NextRanks(job, tasks), Admit::kReady, placed)) {
    return false;
  }
  if (ForbiddenBy(state, job, placed) != kNoJob) {
    state.resources.RollBack(before);
    return false;
  }
  ChargeReservations(state, job.number, EndOfStart(state, job), placed);
  state.Confirmable(job, state.policy.bind_deadline);
  Decision& grow = context_.AddDecision(DecisionKind::kGrow, job.transaction, job);
  grow.after = context_.JobsLeaving(placed, job);
  for (const HeldTask& task : placed) grow.tasks.push_back(context_.PlacementOf(task));
  state.Keep(job, placed);
  LayRanks(state, job, job.tasks, false);
  grow.ranks = GpusOfRanks(state, job);
  return true;
}

}  // namespace longhaul::scheduler::internal
