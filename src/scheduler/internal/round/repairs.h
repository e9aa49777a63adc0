// The pass that handles running gangs which lost tasks: it chooses the cheapest way to continue.
//
// gang/repair.h lists the ways with their prices: tasks in the place of the lost ones, fewer tasks,
// or the whole gang elsewhere. Gangs whose rules it does not cover get replacements near the
// remaining tasks. A gang that cannot continue at all stops and waits again, after
// Policy::repair_patience.
#pragma once

#include <vector>

#include "scheduler/gang/equal_tasks.h"
#include "scheduler/internal/round/round_context.h"

namespace longhaul::scheduler::internal {

class Repairs {
 public:
  // `context` outlives this.
  explicit Repairs(RoundContext& context) : context_(context) {}

  // Handles each job that has lost tasks, with one step each.
  void Run();

 private:
  void Repair(JobEntry& job);
  bool QuotaIsLeft(const JobEntry& job) const;
  bool RepairByPlan(JobEntry& job);
  bool Replace(JobEntry& job);
  bool MoveTo(JobEntry& job, const std::vector<HostTasks>& hosts);
  void RecordRepair(JobEntry& job, const std::vector<HeldTask>& placed);
  bool ShrinkToSurvivors(JobEntry& job);

  RoundContext& context_;
};

}  // namespace longhaul::scheduler::internal
