// Gangs that lost tasks: the cheapest way to continue (gang/repair.h), else wait again.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "scheduler/gang/repair.h"
#include "scheduler/internal/rank_places.h"
#include "scheduler/internal/round.h"

namespace longhaul::scheduler::internal {

namespace {

// An engine that refuses a task so often has another problem than the node.
constexpr uint32_t kMostRefusals = 3;

// The survivors' hosts, ascending, with their tasks.
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

// Whether gang/repair.h can say it all: one group of equal tasks, whole slices, nothing that
// depends on which tasks are where.
bool Plannable(const SchedulerState& state, const JobEntry& job) {
  if (job.request->groups.size() != 1 || job.tasks.empty() || !state.links.empty()) return false;
  const GroupRequest& group = job.request->groups[0];
  return group.max_per_domain == 0 && !group.rail_aligned && group.slice == 1 &&
         std::min(group.required, job.request->required) != kHostTier &&
         state.policy.placement == PlacementRule::kExact;
}

int64_t SecondsOf(Duration time) { return std::max<int64_t>(0, time / std::chrono::seconds(1)); }

}  // namespace

void Round::Repair() {
  const std::vector<JobNumber> damaged(state_.damaged.begin(), state_.damaged.end());
  for (const JobNumber number : damaged) RepairJob(state_.at(number));
}

void Round::RepairJob(JobEntry& job) {
  --steps_;
  std::sort(job.lost.begin(), job.lost.end());
  const bool patient = state_.policy.repair_patience > Duration(0) && job.refusals == 0;
  const bool try_on = job.refusals <= kMostRefusals &&
                      (!job.tasks.empty() || (patient && job.request->groups.size() == 1)) &&
                      QuotaIsLeft(job);
  if (try_on && (Plannable(state_, job) ? RepairByPlan(job) : Replace(job))) return;
  if (ShrinkToSurvivors(job)) return;
  if (patient && state_.now < job.lost_since + state_.policy.repair_patience) return;
  Decision& undo =
      Say(job.bind_by ? DecisionKind::kUndo : DecisionKind::kEvict, job.transaction, job);
  undo.tasks = state_.PlacementsOf(job);
  undo.reason = "tasks were lost and cannot be replaced under its rules";
  state_.Requeue(job, !job.tasks.empty());
}

// What was lost a while ago others may have taken.
bool Round::QuotaIsLeft(const JobEntry& job) const {
  if (job.lost_since == state_.now) return true;
  spec::SharedAmounts lost;
  for (const auto& [group, rank] : job.lost) {
    lost += AmountsOf(job.request->groups[static_cast<size_t>(group)].shape, 1);
  }
  return !state_.queues.Check(job.queue, lost).has_value();
}

// All ways by what they cost, lost GPU-seconds now and slowdown until the end; the first that
// goes, and the whole gang elsewhere last.
bool Round::RepairByPlan(JobEntry& job) {
  const GroupRequest& group = job.request->groups[0];
  const std::vector<HostTasks> survivors = HostsOf(state_, job);
  RepairProblem problem;
  problem.survivors = survivors;
  problem.lost_tasks = static_cast<int32_t>(job.lost.size());
  problem.required_tier = std::min(group.required, job.request->required);
  const auto had = static_cast<int32_t>(job.tasks.size()) + problem.lost_tasks;
  // Whole steps leave, counted from the minimum: a rest of it is never given up.
  const bool elastic = group.desired > group.minimum && group.minimum % group.step == 0;
  problem.min_tasks = elastic ? group.minimum : had;
  problem.shrink_step = elastic ? group.step : 1;
  problem.gpus_a_task = std::max<int32_t>(1, group.shape.gpus);
  problem.remaining_s = SecondsOf(state_.ExpectedEnd(job) - state_.now);
  problem.restart_s = SecondsOf(job.request->restart_cost);
  problem.move_s = problem.restart_s + SecondsOf(state_.now - job.last_snapshot);
  problem.wait_s = -1;
  problem.slowdown_ppm[kLeafTier] = state_.policy.leaf_slowdown_ppm;
  for (size_t t = kBlockTier; t < problem.slowdown_ppm.size(); ++t) {
    problem.slowdown_ppm[t] = state_.policy.block_slowdown_ppm;
  }
  const auto usable = [&] {
    SlotTable table = state_.tables.Of(state_.resources, job.shapes[0], Admit::kSpareToo);
    for (const NodeIndex node : job.refused_by) table.Set(static_cast<int32_t>(node), 0);
    return table;
  };
  const SlotTable free = usable();
  const Savepoint before = state_.resources.Save();
  for (const HeldTask& task : job.tasks) state_.resources.Remove(task.slot);
  const SlotTable if_moved = usable();
  state_.resources.RollBack(before);
  std::vector<uint8_t> spare(state_.resources.size());
  for (NodeIndex node = 0; node < state_.resources.size(); ++node) {
    spare[node] = state_.resources.node(node).condition == spec::NodeCondition::kSpare ? 1 : 0;
  }
  EqualTasksSolver solver;
  const RepairCandidate* move = nullptr;
  const auto ways = FindRepairs(free, spare, if_moved, problem, solver);
  for (const RepairCandidate& way : ways) {
    if (way.way == RepairWay::kMoveGang) move = &way;
    if (way.way == RepairWay::kMoveGang || way.way == RepairWay::kWait) continue;
    if (way.way == RepairWay::kShrink ? ShrinkToSurvivors(job) : ReplaceOn(job, way.added, false)) {
      return true;
    }
  }
  // The survivors stay where they are while anything else will do.
  return move != nullptr && ReplaceOn(job, move->added, true);
}

bool Round::ReplaceOn(JobEntry& job, const std::vector<HostTasks>& hosts, bool whole_gang) {
  // Unconfirmed tasks can't be moved: their start is still under way.
  if (whole_gang && (!state_.policy.moves || job.bind_by || job.leaving)) return false;
  std::vector<std::pair<int32_t, int32_t>> wanted = job.lost;
  if (whole_gang) {
    for (const HeldTask& task : job.tasks) wanted.emplace_back(task.group, task.rank);
    std::sort(wanted.begin(), wanted.end());
    state_.Uproot(job);
  }
  std::vector<HeldTask> placed;
  for (const HostTasks& entry : hosts) {
    const auto node = static_cast<NodeIndex>(entry.host);
    for (int32_t i = 0; i < entry.tasks; ++i) {
      const auto& [group, rank] = wanted[placed.size()];
      const GpuMask gpus = state_.resources.ChooseGpus(node, job.shapes[0]);
      const TaskSlot slot = state_.resources.Place(node, job.shapes[0], gpus, job.number);
      placed.push_back({group, rank, slot, Stage::kAssumed});
    }
  }
  CHECK(placed.size() == wanted.size()) << "a repair plan of another size";
  if (!whole_gang) {
    SayRepaired(job, placed);
    return true;
  }
  job.lost.clear();
  state_.damaged.erase(job.number);
  LayRanks(state_, job, placed, true);
  state_.Keep(job, placed);
  SayMoved(job);
  decisions_.back().reason = "tasks were lost, and near the others no place is as good";
  return true;
}

void Round::SayRepaired(JobEntry& job, const std::vector<HeldTask>& placed) {
  state_.Confirmable(job, state_.policy.bind_deadline);
  Decision& repair = Say(DecisionKind::kRepair, job.transaction, job);
  repair.after = Leaving(placed, job);
  for (const HeldTask& task : placed) {
    const TaskRecord& record = state_.resources.task(task.slot);
    repair.tasks.push_back({task.group, task.rank, record.node, record.gpus});
  }
  state_.Keep(job, placed);
  job.lost.clear();
  state_.damaged.erase(job.number);
  repair.ranks = GpusOfRanks(state_, job);
}

// Group by group near the survivors, under their rules.
bool Round::Replace(JobEntry& job) {
  std::vector<HeldTask> placed;
  const Savepoint before = state_.resources.Save();
  for (size_t i = 0; i < job.lost.size();) {
    const int32_t group = job.lost[i].first;
    std::vector<int32_t> ranks;
    for (; i < job.lost.size() && job.lost[i].first == group; ++i) {
      ranks.push_back(job.lost[i].second);
    }
    if (placer_.PlaceMore(state_, job, group, ranks, Admit::kSpareToo, placed)) continue;
    state_.resources.RollBack(before);
    return false;
  }
  SayRepaired(job, placed);
  return true;
}

// Whole steps leave: with each lost task the rest of its step.
bool Round::ShrinkToSurvivors(JobEntry& job) {
  if (job.request->groups.size() != 1 || job.refusals > kMostRefusals) return false;
  const GroupRequest& group = job.request->groups[0];
  const auto had = static_cast<int32_t>(job.tasks.size() + job.lost.size());
  const auto left = static_cast<int32_t>(job.tasks.size());
  if (left < group.minimum || group.desired == group.minimum) return false;
  const int32_t target = group.minimum + (left - group.minimum) / group.step * group.step;
  if (target >= had) return false;
  Decision& shrink = Say(DecisionKind::kShrink, job.transaction, job);
  shrink.reason = "tasks were lost; it continues with fewer";
  while (static_cast<int32_t>(job.tasks.size()) > target) {
    const HeldTask& last = job.tasks.back();
    const TaskRecord& record = state_.resources.task(last.slot);
    shrink.tasks.push_back({last.group, last.rank, record.node, record.gpus});
    state_.Drop(job, job.tasks.size() - 1);
  }
  state_.resources.Commit();
  state_.Renumber(job);
  job.lost.clear();
  state_.damaged.erase(job.number);
  LayRanks(state_, job, job.tasks, false);
  shrink.ranks = GpusOfRanks(state_, job);
  return true;
}

}  // namespace longhaul::scheduler::internal
