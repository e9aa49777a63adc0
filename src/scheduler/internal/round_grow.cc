// Elastic jobs receive the GPUs that no waiting job can use, by their value to each job.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "scheduler/gang/elastic_counts.h"
#include "scheduler/gang/goodput.h"
#include "scheduler/internal/planning.h"
#include "scheduler/internal/rank_places.h"
#include "scheduler/internal/round.h"

namespace longhaul::scheduler::internal {

namespace {

constexpr int64_t kSteps = 5'000'000;  // of the exact table; beyond, marginal values and exchanges
// A shrunk job restarts too: it must be worth this part of all values at least.
constexpr int64_t kWorthShrinking = 50;

int32_t TasksOf(const JobEntry& job) { return static_cast<int32_t>(job.tasks.size()); }

// Elastic, whole, confirmed, and its GPUs are what counts.
bool MayChange(const JobEntry& job) {
  const GroupRequest& group = job.request->groups[0];
  return job.request->groups.size() == 1 && group.desired > group.minimum && group.shape.gpus > 0 &&
         job.lost.empty() && !job.bind_by && !job.leaving;
}

// The value of each count between the least and the most allowed; the index of the present one.
struct Choice {
  JobNumber job = kNoJob;
  ElasticJob options;
  std::vector<int32_t> counts;
  int64_t value_now = 0;
};

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
    if (count > TasksOf(job) && queues.Check(job.queue, AmountsOf(group.shape, more))) break;
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
  std::vector<std::pair<JobNumber, int32_t>> counts;  // those that change
  int64_t gain = 0;
  int64_t value = 0;
  bool shrinks = false;
};

Plan MakePlan(const SchedulerState& state, const std::vector<JobNumber>& jobs, bool may_shrink) {
  std::vector<ElasticJob> options;
  std::vector<Choice> choices;
  int64_t gpus = state.resources.cluster().free_gpus;
  Plan plan;
  // What quotas would allow if all shrank to their minimum: the sum is judged with the whole plan.
  share::QueueTree queues = state.queues;
  for (const JobNumber number : jobs) {
    const JobEntry& job = state.at(number);
    const GroupRequest& group = job.request->groups[0];
    if (!may_shrink) break;
    queues.Remove(job.queue, AmountsOf(group.shape, TasksOf(job) - group.minimum));
  }
  for (const JobNumber number : jobs) {
    const JobEntry& job = state.at(number);
    Choice choice = ChoicesOf(state, queues, job, may_shrink);
    if (choice.counts.empty()) continue;
    gpus += int64_t{TasksOf(job)} * job.request->groups[0].shape.gpus;
    options.push_back(choice.options);
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

}  // namespace

void Round::Grow() {
  if (state_.now - state_.grown_at < state_.policy.elastic_period) return;
  state_.grown_at = state_.now;
  state_.grown_seen = state_.Versions();
  if (state_.elastic.empty()) return;
  std::vector<JobNumber> jobs;
  for (const JobNumber number : state_.placed) {
    if (MayChange(state_.at(number))) jobs.push_back(number);
  }
  if (jobs.empty()) return;
  --steps_;
  Plan plan = MakePlan(state_, jobs, false);
  const Plan other = MakePlan(state_, jobs, true);
  if (other.shrinks && (other.gain - plan.gain) * kWorthShrinking > std::abs(plan.value) &&
      PlanLands(other.counts)) {
    plan = other;
  }
  for (const auto& [number, count] : plan.counts) {
    JobEntry& job = state_.at(number);
    if (count < TasksOf(job)) ShrinkBy(job, TasksOf(job) - count);
  }
  for (const auto& [number, count] : plan.counts) {
    if (steps_ <= 0) return;
    JobEntry& job = state_.at(number);
    const int32_t step = job.request->groups[0].step;
    // Fewer where rules or promises don't leave all of it.
    for (int32_t more = count - TasksOf(job); more > 0 && !GrowBy(job, more); more -= step) {
      --steps_;
    }
  }
}

// Whether all that grow find their places once the others have shrunk; nothing is kept.
bool Round::PlanLands(const std::vector<std::pair<JobNumber, int32_t>>& counts) {
  const Savepoint before = state_.resources.Save();
  share::QueueTree queues = state_.queues;
  for (const auto& [number, count] : counts) {
    const JobEntry& job = state_.at(number);
    const Shape& shape = job.request->groups[0].shape;
    if (count < TasksOf(job)) queues.Remove(job.queue, AmountsOf(shape, TasksOf(job) - count));
    for (auto i = static_cast<size_t>(std::max(count, 0)); i < job.tasks.size(); ++i) {
      state_.resources.Remove(job.tasks[i].slot);
    }
  }
  bool lands = true;
  for (const auto& [number, count] : counts) {
    const JobEntry& job = state_.at(number);
    if (count <= TasksOf(job)) continue;
    const auto more = AmountsOf(job.request->groups[0].shape, count - TasksOf(job));
    lands = lands && !queues.Check(job.queue, more).has_value();
    if (!lands) break;
    queues.Add(job.queue, more);
    std::vector<int32_t> ranks(static_cast<size_t>(count - TasksOf(job)));
    std::iota(ranks.begin(), ranks.end(), TasksOf(job));
    std::vector<HeldTask> placed;
    lands = lands && placer_.PlaceMore(state_, job, 0, ranks, Admit::kReady, placed) &&
            ForbiddenBy(state_, job, placed) == kNoJob;
  }
  state_.resources.RollBack(before);
  return lands;
}

void Round::ShrinkBy(JobEntry& job, int32_t tasks) {
  Decision& shrink = Say(DecisionKind::kShrink, job.transaction, job);
  shrink.reason = "its GPUs are worth more to another elastic job";
  for (int32_t i = 0; i < tasks; ++i) {
    const HeldTask& last = job.tasks.back();
    const TaskRecord& record = state_.resources.task(last.slot);
    shrink.tasks.push_back({last.group, last.rank, record.node, record.gpus});
    state_.Drop(job, job.tasks.size() - 1);
  }
  state_.resources.Commit();
  LayRanks(state_, job, job.tasks, false);
  shrink.ranks = GpusOfRanks(state_, job);
}

bool Round::GrowBy(JobEntry& job, int32_t tasks) {
  const GroupRequest& group = job.request->groups[0];
  if (state_.queues.Check(job.queue, AmountsOf(group.shape, tasks))) return false;
  std::vector<int32_t> ranks(static_cast<size_t>(tasks));
  std::iota(ranks.begin(), ranks.end(), TasksOf(job));
  const Savepoint before = state_.resources.Save();
  std::vector<HeldTask> placed;
  if (!placer_.PlaceMore(state_, job, 0, ranks, Admit::kReady, placed)) return false;
  if (ForbiddenBy(state_, job, placed) != kNoJob) {
    state_.resources.RollBack(before);
    return false;
  }
  ChargeReservations(state_, job, placed);
  state_.Confirmable(job, state_.policy.bind_deadline);
  Decision& grow = Say(DecisionKind::kGrow, job.transaction, job);
  grow.after = Leaving(placed, job);
  for (const HeldTask& task : placed) {
    const TaskRecord& record = state_.resources.task(task.slot);
    grow.tasks.push_back({task.group, task.rank, record.node, record.gpus});
  }
  state_.Keep(job, placed);
  LayRanks(state_, job, job.tasks, false);
  grow.ranks = GpusOfRanks(state_, job);
  return true;
}

}  // namespace longhaul::scheduler::internal
