#include "scheduler/internal/round/repairs.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "scheduler/gang/repair.h"
#include "scheduler/internal/rank_places.h"
#include "scheduler/internal/round/record_move.h"

namespace longhaul::scheduler::internal {

namespace {

// An engine that refuses a job's tasks more often has another problem than the node.
constexpr uint32_t kMostRefusals = 3;

// The hosts of the remaining tasks, ascending, with their counts.
std::vector<HostTasks> HostsOf(const SchedulerState& state, const JobEntry& job) {
  std::vector<HostTasks> hosts;
  for (const HeldTask& task : job.tasks) {
    hosts.push_back({static_cast<int32_t>(state.resources.task(task.slot).node), 1});
  }
  std::sort(hosts.begin(), hosts.end(),
            [](const HostTasks& a, const HostTasks& b) { return a.host < b.host; });
  std::vector<HostTasks> merged;
  for (const HostTasks& entry : hosts) {
    if (merged.empty() || merged.back().host != entry.host) merged.push_back({entry.host, 0});
    ++merged.back().tasks;
  }
  return merged;
}

// Whether gang/repair.h covers the job's rules: one group of equal tasks, whole slices, and nothing
// that depends on which tasks are where, other than a bound of tasks on a host.
bool IsPlannable(const SchedulerState& state, const JobEntry& job) {
  if (job.request->groups.size() != 1 || job.tasks.empty() || !state.links.empty()) return false;
  const GroupRequest& group = job.request->groups[0];
  return !group.is_spread() && !group.rail_aligned && group.slice == 1 &&
         std::min(group.required, job.request->required) != kHostTier &&
         state.policy.placement == PlacementRule::kExact;
}

int64_t SecondsOf(Duration time) { return std::max<int64_t>(0, time / std::chrono::seconds(1)); }

// The problem of gang/repair.h for the job; `survivors` outlives it.
RepairProblem ProblemOf(const SchedulerState& state, const JobEntry& job,
                        const std::vector<HostTasks>& survivors) {
  const GroupRequest& group = job.request->groups[0];
  RepairProblem problem;
  problem.survivors = survivors;
  problem.lost_tasks = static_cast<int32_t>(job.lost.size());
  problem.required_tier = std::min(group.required, job.request->required);
  const auto had = static_cast<int32_t>(job.tasks.size()) + problem.lost_tasks;
  // Whole steps are removed, counted from the minimum, so a minimum of part of a step stays.
  const bool elastic = group.desired > group.minimum && group.minimum % group.step == 0;
  problem.min_tasks = elastic ? group.minimum : had;
  problem.shrink_step = elastic ? group.step : 1;
  problem.gpus_a_task = std::max<int32_t>(1, group.shape.gpus);
  problem.remaining_s = SecondsOf(state.ExpectedEnd(job) - state.now);
  problem.restart_s = SecondsOf(job.request->restart_cost);
  problem.move_s = problem.restart_s + SecondsOf(state.now - job.last_snapshot);
  problem.wait_s = -1;
  problem.slowdown_ppm[kLeafTier] = state.policy.leaf_slowdown_ppm;
  for (size_t t = kBlockTier; t < problem.slowdown_ppm.size(); ++t) {
    problem.slowdown_ppm[t] = state.policy.block_slowdown_ppm;
  }
  return problem;
}

// The slots for tasks of the job's only group, in this shape, on hosts that have not refused it and
// next to `survivors`, the hosts of tasks that stay.
SlotTable SlotsBeside(SchedulerState& state, const JobEntry& job, ShapeId shape,
                      std::span<const NodeIndex> survivors) {
  SlotTable table = state.tables.Of(state.resources, shape, Admit::kSpareToo);
  for (const NodeIndex node : job.refused_by) table.Set(static_cast<int32_t>(node), 0);
  const GroupRequest& group = job.request->groups[0];
  if (group.max_per_host > 0) CapHosts(table, group.max_per_host, survivors);
  return table;
}

// Puts tasks with the wanted groups and ranks on the hosts, uncommitted. Requires that the hosts
// have room and that the counts agree.
std::vector<HeldTask> PutOn(SchedulerState& state, const JobEntry& job,
                            const std::vector<HostTasks>& hosts,
                            const std::vector<std::pair<int32_t, int32_t>>& wanted) {
  std::vector<HeldTask> placed;
  for (const HostTasks& entry : hosts) {
    const auto node = static_cast<NodeIndex>(entry.host);
    for (int32_t i = 0; i < entry.tasks; ++i) {
      const auto& [group, rank] = wanted[placed.size()];
      const GpuMask gpus = state.resources.ChooseGpus(node, job.shapes[0]);
      const TaskSlot slot = state.resources.Place(node, job.shapes[0], gpus, job.number);
      placed.push_back({group, rank, slot, Stage::kAssumed});
    }
  }
  CHECK(placed.size() == wanted.size()) << "a repair plan of another size";
  return placed;
}

}  // namespace

void Repairs::Run() {
  SchedulerState& state = context_.state;
  std::vector<JobNumber> damaged(state.damaged.begin(), state.damaged.end());
  // The quota of what is lost only now is certainly left, as long as no other job has taken it.
  std::stable_partition(damaged.begin(), damaged.end(), [&state](JobNumber number) {
    return state.at(number).lost_since == state.now;
  });
  for (const JobNumber number : damaged) Repair(state.at(number));
}

// The ways in order: replace the lost tasks, continue with fewer, wait within the patience of the
// policy, stop. A job whose start was never confirmed is undone instead of evicted.
void Repairs::Repair(JobEntry& job) {
  SchedulerState& state = context_.state;
  --context_.steps_left;
  std::sort(job.lost.begin(), job.lost.end());
  const bool patient = state.policy.repair_patience > Duration(0) && job.refusals == 0;
  const bool may_replace = job.refusals <= kMostRefusals && !job.mixes_models &&
                           (!job.tasks.empty() || (patient && job.request->groups.size() == 1)) &&
                           QuotaIsLeft(job);
  if (may_replace && (IsPlannable(state, job) ? RepairByPlan(job) : Replace(job))) return;
  if (ShrinkToSurvivors(job)) return;
  if (patient && state.now < job.lost_since + state.policy.repair_patience) return;
  Decision& undo = context_.AddDecision(job.bind_by ? DecisionKind::kUndo : DecisionKind::kEvict,
                                        job.transaction, job);
  undo.tasks = state.PlacementsOf(job);
  undo.reason = "tasks were lost and cannot be replaced under its rules";
  state.Requeue(job, !job.tasks.empty());
}

// The quota may be gone: other jobs have used that of tasks that were lost in an earlier round,
// what was lost was on another device model than the tasks that remain, or the limit was lowered.
bool Repairs::QuotaIsLeft(const JobEntry& job) const {
  const SchedulerState& state = context_.state;
  spec::SharedAmounts lost;
  for (const auto& [group, rank] : job.lost) {
    lost += state.AmountsOf(state.resources.shape(state.ShapeBesideTasks(job, group)), 1);
  }
  return !state.queues.Check(PartOf(job, lost)).has_value();
}

// Carries out the cheapest way that is possible, by lost GPU-seconds now and slowdown until the
// end. A move of the whole gang is the last resort: the remaining tasks stay as long as any other
// way is possible.
bool Repairs::RepairByPlan(JobEntry& job) {
  SchedulerState& state = context_.state;
  const std::vector<HostTasks> survivors = HostsOf(state, job);
  const RepairProblem problem = ProblemOf(state, job, survivors);
  std::vector<NodeIndex> nodes;
  for (const HeldTask& task : job.tasks) nodes.push_back(state.resources.task(task.slot).node);
  const ShapeId shape = state.ShapeBesideTasks(job, 0);
  const SlotTable free = SlotsBeside(state, job, shape, nodes);
  // Slots as they would be after the gang has left its places: the table for a move of the whole
  // gang.
  const Savepoint before = state.resources.Save();
  for (const HeldTask& task : job.tasks) state.resources.Remove(task.slot);
  const SlotTable if_moved = SlotsBeside(state, job, shape, {});
  state.resources.RollBack(before);
  std::vector<uint8_t> spare(state.resources.size());
  for (NodeIndex node = 0; node < state.resources.size(); ++node) {
    spare[node] = state.resources.node(node).condition == spec::NodeCondition::kSpare ? 1 : 0;
  }
  EqualTasksSolver solver;
  const RepairCandidate* move = nullptr;
  const auto ways = FindRepairs(free, spare, if_moved, problem, solver);
  // The ways come in the order of their cost. kWait is not carried out here: the patience of the
  // policy decides about waiting.
  for (const RepairCandidate& way : ways) {
    if (way.way == RepairWay::kMoveGang) move = &way;
    if (way.way == RepairWay::kMoveGang || way.way == RepairWay::kWait) continue;
    if (way.way == RepairWay::kShrink) {
      if (ShrinkToSurvivors(job)) return true;
      continue;
    }
    RecordRepair(job, PutOn(state, job, way.added, job.lost));
    return true;
  }
  return move != nullptr && MoveTo(job, move->added);
}

// Moves the whole gang to these hosts.
bool Repairs::MoveTo(JobEntry& job, const std::vector<HostTasks>& hosts) {
  SchedulerState& state = context_.state;
  // Unconfirmed tasks cannot be moved, because their start is still under way.
  if (!state.policy.moves || job.bind_by || job.leaving) return false;
  std::vector<std::pair<int32_t, int32_t>> wanted = job.lost;
  for (const HeldTask& task : job.tasks) wanted.emplace_back(task.group, task.rank);
  std::sort(wanted.begin(), wanted.end());
  state.Uproot(job);
  std::vector<HeldTask> placed = PutOn(state, job, hosts, wanted);
  job.lost.clear();
  state.damaged.erase(job.number);
  LayRanks(state, job, placed, true);
  state.Keep(job, placed);
  RecordMove(context_, job, "tasks were lost, and near the others no place is as good");
  return true;
}

// Adds a kRepair with these tasks in the place of the lost ones, and commits them.
void Repairs::RecordRepair(JobEntry& job, const std::vector<HeldTask>& placed) {
  SchedulerState& state = context_.state;
  state.Confirmable(job, state.policy.bind_deadline);
  Decision& repair = context_.AddDecision(DecisionKind::kRepair, job.transaction, job);
  repair.after = context_.JobsLeaving(placed, job);
  for (const HeldTask& task : placed) repair.tasks.push_back(context_.PlacementOf(task));
  state.Keep(job, placed);
  job.lost.clear();
  state.damaged.erase(job.number);
  repair.ranks = GpusOfRanks(state, job);
}

// Places the lost tasks near the remaining ones, group by group under their rules.
bool Repairs::Replace(JobEntry& job) {
  SchedulerState& state = context_.state;
  std::vector<HeldTask> placed;
  const Savepoint before = state.resources.Save();
  for (size_t i = 0; i < job.lost.size();) {
    const int32_t group = job.lost[i].first;
    std::vector<int32_t> ranks;
    for (; i < job.lost.size() && job.lost[i].first == group; ++i) {
      ranks.push_back(job.lost[i].second);
    }
    if (context_.placer.PlaceMore(state, job, group, ranks, Admit::kSpareToo, placed)) continue;
    state.resources.RollBack(before);
    return false;
  }
  RecordRepair(job, placed);
  return true;
}

// Continues with fewer tasks, by whole steps: with each lost task the rest of its step stops.
bool Repairs::ShrinkToSurvivors(JobEntry& job) {
  SchedulerState& state = context_.state;
  if (job.request->groups.size() != 1 || job.refusals > kMostRefusals) return false;
  const GroupRequest& group = job.request->groups[0];
  const auto had = static_cast<int32_t>(job.tasks.size() + job.lost.size());
  const auto left = static_cast<int32_t>(job.tasks.size());
  if (left < group.minimum || group.desired == group.minimum) return false;
  const int32_t target = group.minimum + (left - group.minimum) / group.step * group.step;
  if (target >= had) return false;
  Decision& shrink = context_.AddDecision(DecisionKind::kShrink, job.transaction, job);
  shrink.reason = "tasks were lost; it continues with fewer";
  while (static_cast<int32_t>(job.tasks.size()) > target) {
    shrink.tasks.push_back(context_.PlacementOf(job.tasks.back()));
    state.Drop(job, job.tasks.size() - 1);
  }
  state.resources.Commit();
  state.Renumber(job);
  job.lost.clear();
  state.damaged.erase(job.number);
  LayRanks(state, job, job.tasks, false);
  shrink.ranks = GpusOfRanks(state, job);
  return true;
}

}  // namespace longhaul::scheduler::internal
