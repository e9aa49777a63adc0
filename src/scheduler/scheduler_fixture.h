// For tests: a scheduler over a small Clos whose engine carries out decisions at once.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"

namespace longhaul::scheduler {

struct World {
  World(uint32_t blocks, uint32_t leaves, uint32_t hosts,
        const std::vector<spec::QueueSpec>& queues = {}, const Policy& policy = {})
      : scheduler(Make(blocks, leaves, hosts, queues, policy)) {}

  // Continues from a copy of a scheduler.
  World(const Scheduler& from, Instant at) : scheduler(from.Copy()), now(at) {}

  static Scheduler Make(uint32_t blocks, uint32_t leaves, uint32_t hosts,
                        const std::vector<spec::QueueSpec>& queues, const Policy& policy) {
    auto topology = spec::Topology::Create(spec::ClosCluster(blocks, leaves, hosts));
    EXPECT_TRUE(topology.ok()) << topology.status();
    auto made = Scheduler::Create(*topology, queues, policy);
    EXPECT_TRUE(made.ok()) << made.status();
    return std::move(made).value();
  }

  JobRequest Request(const std::string& name, int32_t tasks, int32_t gpus,
                     const std::string& queue = "") const {
    JobRequest job;
    job.id = JobId(name);
    job.queue = queue;
    job.groups.emplace_back();
    job.groups[0].shape.gpus = static_cast<uint8_t>(gpus);
    job.groups[0].minimum = job.groups[0].desired = tasks;
    return job;
  }

  void Tell(const Event& event) {
    scheduler.Apply(event, now);
    Round();
  }

  void Submit(const JobRequest& job) { Tell(JobSubmitted{job}); }
  void Submit(const std::string& name, int32_t tasks, int32_t gpus, const std::string& queue = "",
              const std::function<void(JobRequest&)>& change = {}) {
    JobRequest job = Request(name, tasks, gpus, queue);
    if (change) change(job);
    Submit(job);
  }
  void End(const std::string& name) { Tell(JobEnded{JobId(name)}); }
  void Pass(Duration time) { now += time; }

  // A round, and another one while the engine's answers change something.
  void Round() {
    for (int i = 0; i < 10; ++i) {
      const std::vector<Decision> round = scheduler.Decide(now);
      decisions.insert(decisions.end(), round.begin(), round.end());
      const Status holds = scheduler.CheckInvariants();
      EXPECT_TRUE(holds.ok()) << holds;
      bool answered = false;
      for (const Decision& decision : round) answered |= Answer(decision);
      if (!answered) return;
    }
  }

  bool Answer(const Decision& decision) {
    if (!obedient) return false;
    switch (decision.kind) {
      case DecisionKind::kStart:
      case DecisionKind::kGrow:
      case DecisionKind::kRepair:
        scheduler.Apply(TasksRunning{decision.job, decision.transaction, {}}, now);
        return true;
      case DecisionKind::kMove:
        scheduler.Apply(JobStopped{decision.job}, now);
        scheduler.Apply(TasksRunning{decision.job, decision.transaction, {}}, now);
        return true;
      case DecisionKind::kEvict:
      case DecisionKind::kSuspend:
      case DecisionKind::kUndo:
        scheduler.Apply(JobStopped{decision.job}, now);
        return true;
      default:
        return false;
    }
  }

  // All GPUs of these hosts, each by a job of its own that nobody may stop.
  void Occupy(const std::vector<NodeIndex>& hosts) {
    for (NodeIndex node = 0; node < scheduler.topology().size(); ++node) {
      const bool wanted = std::find(hosts.begin(), hosts.end(), node) != hosts.end();
      if (!wanted)
        scheduler.Apply(NodeChanged{NodeName(node), spec::NodeCondition::kCordoned}, now);
    }
    for (size_t i = 0; i < hosts.size(); ++i) {
      Submit("occupant-" + std::to_string(hosts[i]), 1, 8, "",
             [](JobRequest& job) { job.preemption = Preemption::kNever; });
    }
    for (NodeIndex node = 0; node < scheduler.topology().size(); ++node) {
      scheduler.Apply(NodeChanged{NodeName(node), spec::NodeCondition::kReady}, now);
    }
  }

  Explanation Explain(const std::string& name) const {
    auto why = scheduler.Explain(JobId(name), now);
    EXPECT_TRUE(why.ok()) << why.status();
    return *why;
  }

  JobStage Stage(const std::string& name) const { return scheduler.StageOf(JobId(name)); }
  bool Runs(const std::string& name) const { return Stage(name) == JobStage::kRunning; }
  std::string NodeName(NodeIndex node) const { return scheduler.topology().node(node).name; }
  // The nodes of a job's tasks, by rank.
  std::vector<NodeIndex> NodesOf(const std::string& name) const {
    std::vector<NodeIndex> nodes;
    for (const TaskPlacement& task : scheduler.TasksOf(JobId(name))) nodes.push_back(task.node);
    return nodes;
  }
  size_t Count(DecisionKind kind) const {
    size_t count = 0;
    for (const Decision& decision : decisions) count += decision.kind == kind ? 1 : 0;
    return count;
  }

  Scheduler scheduler;
  Instant now = InstantFromNanoseconds(1'500'000'000'000'000'000);
  std::vector<Decision> decisions;
  bool obedient = true;
};

// For World::Submit: a job with this limit, which is never preempted if it `stays`.
inline std::function<void(JobRequest&)> Lasts(Duration time, bool stays = false) {
  return [time, stays](JobRequest& job) {
    job.limit = time;
    if (stays) job.preemption = Preemption::kNever;
  };
}

}  // namespace longhaul::scheduler
