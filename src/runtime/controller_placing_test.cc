// The controller with several jobs: who gets which nodes, who leaves them, and how.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/controller.h"

namespace longhaul::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

wire::Job Gang(const std::string& id, uint32_t nodes, uint32_t processes = 2) {
  wire::Job job;
  job.set_id(id);
  job.set_nodes(nodes);
  job.set_processes_per_node(processes);
  job.mutable_workload()->set_built_in(true);
  job.set_total_steps(1000);
  job.set_max_restarts(10);
  job.mutable_snapshot()->set_keep(2);
  job.mutable_snapshot()->set_replicated(true);
  job.mutable_data()->set_samples(1000);
  job.mutable_data()->set_global_batch(32);
  return job;
}

// A controller and agents that do at once what they are told. After every event all invariants are
// checked, and that what the scheduler has placed is what runs.
class Cluster {
 public:
  explicit Cluster(const std::string& configuration = "", const std::string& cluster_file = "") {
    Started(configuration, cluster_file);
  }

  void Started(const std::string& configuration, const std::string& cluster_file = "") {
    wire::Event event;
    auto& file = *event.mutable_controller_started()->mutable_scheduling();
    file.set_text(configuration);
    file.set_cluster_text(cluster_file);
    Feed(event);
  }

  void Feed(const wire::Event& event) {
    log.emplace_back(now, event);
    Actions actions = controller.Step(event, now);
    ASSERT_TRUE(controller.CheckInvariants().ok()) << controller.CheckInvariants();
    ASSERT_TRUE(controller.CheckPlaces().ok()) << controller.CheckPlaces();
    for (auto& [node, command] : actions.commands) queue_.emplace_back(node.value(), command);
    if (answering_) return;
    answering_ = true;
    while (!queue_.empty()) {
      const auto [node, command] = queue_.front();
      queue_.pop_front();
      sent.emplace_back(node, command);
      Answer(node, command);
    }
    answering_ = false;
  }

  void Join(const std::string& node, uint32_t slots = 2, uint64_t life = 1) {
    if (incarnation_[node] != life) sequence_[node] = 0;
    incarnation_[node] = life;
    wire::Event event;
    event.mutable_agent_joined()->set_slots(slots);
    event.mutable_agent_joined()->set_address("127.0.0.1");
    Report(node, event);
  }
  void Lose(const std::string& node) {
    wire::Event event;
    event.set_node(node);
    event.set_incarnation(incarnation_[node]);
    event.set_at_ns(ToNanoseconds(now));
    event.mutable_agent_disconnected()->set_reason("reset");
    Feed(event);
    TickUntil(now + seconds(2));
  }
  void Submit(const wire::Job& job) {
    wire::Event event;
    *event.mutable_job_submitted()->mutable_job() = job;
    Feed(event);
  }
  void Stop(const std::string& job) {
    wire::Event event;
    event.mutable_job_stop_requested()->set_job_id(job);
    Feed(event);
  }
  void Cordon(const std::string& node, bool cordoned, bool drain = false) {
    wire::Event event;
    event.mutable_node_cordoned()->set_target(node);
    event.mutable_node_cordoned()->set_cordoned(cordoned);
    event.mutable_node_cordoned()->set_drain(drain);
    Feed(event);
  }
  // One more step of a running job, and a snapshot after it where its nodes were told to take one.
  void Step(const std::string& id) {
    now += milliseconds(100);
    const wire::JobStatus job = Job(id);
    const uint64_t step = job.step() + 1;
    for (const std::string& node : job.gang()) {
      wire::Event event;
      auto& report = *event.mutable_step_reported();
      report.set_job_id(id);
      report.set_epoch(job.epoch());
      report.set_first_step(step);
      report.set_last_step(step);
      report.set_has_loss(node == job.gang(0));
      Report(node, event);
    }
    if (!snapshots.contains(id)) return;
    for (const std::string& node : job.gang()) Seal(id, node, step);
  }
  void Seal(const std::string& id, const std::string& node, uint64_t step) {
    wire::Event event;
    auto& sealed = *event.mutable_snapshot_sealed();
    sealed.set_job_id(id);
    sealed.set_epoch(Job(id).epoch());
    sealed.set_step(step);
    sealed.set_blocked_ns(1'000'000);
    Report(node, event);
  }
  void Persist(const std::string& id, const std::string& node, uint64_t epoch, uint64_t step) {
    wire::Event event;
    auto& persisted = *event.mutable_snapshot_persisted();
    persisted.set_job_id(id);
    persisted.set_epoch(epoch);
    persisted.set_step(step);
    persisted.add_files()->set_name("rank-0");
    Report(node, event);
  }
  void TickUntil(Instant until) {
    while (controller.NextDeadline().has_value() && *controller.NextDeadline() <= until) {
      now = std::max(now, *controller.NextDeadline());
      wire::Event event;
      event.mutable_tick();
      Feed(event);
    }
    now = until;
  }

  wire::JobStatus Job(const std::string& id) const {
    return controller.JobStatus(JobId(id), now).value_or(wire::JobStatus());
  }
  wire::JobState StateOf(const std::string& id) const { return Job(id).state(); }
  std::vector<std::string> GangOf(const std::string& id) const {
    const wire::JobStatus job = Job(id);
    return {job.gang().begin(), job.gang().end()};
  }
  wire::NodeStatus Node(const std::string& name) const {
    for (const wire::NodeStatus& node : controller.AllNodes()) {
      if (node.name() == name) return node;
    }
    return {};
  }
  wire::StartWorkers LastStart(const std::string& id, const std::string& node) const {
    for (auto entry = sent.rbegin(); entry != sent.rend(); ++entry) {
      const auto& start = entry->second.start_workers();
      if (entry->first == node && entry->second.has_start_workers() && start.job_id() == id) {
        return start;
      }
    }
    ADD_FAILURE() << id << " was never started on " << node;
    return {};
  }

  // Time passes here without steps.
  static ControllerOptions Patient() {
    ControllerOptions options;
    options.hang_floor = std::chrono::hours(24);
    return options;
  }

  Controller controller{Patient()};
  Instant now = InstantFromNanoseconds(1'000'000'000'000);
  std::vector<std::pair<std::string, wire::Command>> sent;
  std::vector<std::pair<Instant, wire::Event>> log;
  std::set<std::string> snapshots;  // jobs that take one after every step
  bool closes = true;               // killed workers end at once

 private:
  void Report(const std::string& node, wire::Event event) {
    event.set_node(node);
    event.set_incarnation(incarnation_[node]);
    event.set_sequence(++sequence_[node]);
    event.set_at_ns(ToNanoseconds(now));
    Feed(event);
  }

  void Answer(const std::string& node, const wire::Command& command) {
    wire::Event event;
    if (command.has_open_store()) {
      event.mutable_store_opened()->set_job_id(command.open_store().job_id());
      event.mutable_store_opened()->set_epoch(command.open_store().epoch());
      event.mutable_store_opened()->set_port(4000);
      Report(node, event);
    } else if (command.has_start_workers()) {
      const auto& start = command.start_workers();
      snapshots.erase(start.job_id());
      event.mutable_workers_started()->set_job_id(start.job_id());
      event.mutable_workers_started()->set_epoch(start.epoch());
      Report(node, event);
      for (const auto phase : {wire::PhaseEntered::RENDEZVOUS, wire::PhaseEntered::RESTORE,
                               wire::PhaseEntered::STEPPING}) {
        wire::Event entered;
        entered.mutable_phase_entered()->set_job_id(start.job_id());
        entered.mutable_phase_entered()->set_epoch(start.epoch());
        entered.mutable_phase_entered()->set_phase(phase);
        entered.mutable_phase_entered()->set_restored_step(start.restore().step());
        Report(node, entered);
      }
    } else if (command.has_kill_workers() && closes) {
      event.mutable_epoch_closed()->set_job_id(command.kill_workers().job_id());
      event.mutable_epoch_closed()->set_epoch(command.kill_workers().epoch());
      Report(node, event);
    } else if (command.has_set_snapshot_interval()) {
      if (command.set_snapshot_interval().steps() == 1) {
        snapshots.insert(command.set_snapshot_interval().job_id());
      }
    } else if (command.has_commit_snapshot()) {
      event.mutable_snapshot_committed()->set_job_id(command.commit_snapshot().job_id());
      event.mutable_snapshot_committed()->set_epoch(command.commit_snapshot().epoch());
      event.mutable_snapshot_committed()->set_step(command.commit_snapshot().step());
      Report(node, event);
    }
  }

  std::map<std::string, uint64_t> incarnation_;
  std::map<std::string, uint64_t> sequence_;
  std::deque<std::pair<std::string, wire::Command>> queue_;
  bool answering_ = false;
};

wire::Job WithPriority(wire::Job job, int32_t priority) {
  job.mutable_scheduling()->set_priority(priority);
  return job;
}

TEST(Placing, TwoJobsShareANodeAndAThirdWaitsForASlot) {
  Cluster cluster;
  cluster.Join("node-1", 4);
  cluster.Submit(Gang("a", 1));
  cluster.Submit(Gang("b", 1));
  cluster.Submit(Gang("c", 1));
  EXPECT_EQ(cluster.StateOf("a"), wire::RUNNING);
  EXPECT_EQ(cluster.StateOf("b"), wire::RUNNING);
  EXPECT_EQ(cluster.StateOf("c"), wire::QUEUED);
  EXPECT_EQ(cluster.Node("node-1").used_slots(), 4u);
  EXPECT_THAT(cluster.Node("node-1").jobs(), ElementsAre("a", "b"));
  cluster.Stop("a");
  EXPECT_EQ(cluster.StateOf("c"), wire::RUNNING);
}

TEST(Placing, RanksFollowTheNaturalOrderOfNames) {
  Cluster cluster;
  for (const char* node : {"node-10", "node-2", "node-1"}) cluster.Join(node);
  cluster.Submit(Gang("a", 3));
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-1", "node-2", "node-10"));
}

TEST(Placing, KeepsAGangThatNoPresentNodesCouldHoldAndSaysTheLargest) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 3));
  EXPECT_EQ(cluster.StateOf("a"), wire::QUEUED);
  EXPECT_THAT(cluster.Job("a").reason(), HasSubstr("the largest size that fits this cluster is 1"));
  cluster.Join("node-2");
  cluster.Join("node-3");
  EXPECT_EQ(cluster.StateOf("a"), wire::RUNNING);
}

constexpr const char* kTwoNodes = R"(
levels: [leaf]
models: {H100: {memory: 80GiB}}
kinds: {host: {model: H100, devices: 2, cpu: 8, memory: 64GiB}}
nodes:
  - {name: node-1, kind: host, at: {leaf: l1}}
  - {name: node-2, kind: host, at: {leaf: l2}}
)";

TEST(Placing, ManySlotsANodeAreCountedExactly) {
  Cluster cluster;
  cluster.Join("node-1", 17);
  cluster.Join("node-2", 4);
  cluster.Submit(Gang("all", 1, 17));
  EXPECT_THAT(cluster.GangOf("all"), ElementsAre("node-1"));
  cluster.Submit(Gang("small", 1, 4));
  EXPECT_THAT(cluster.GangOf("small"), ElementsAre("node-2"));
  cluster.Submit(Gang("more", 1, 1));
  EXPECT_EQ(cluster.StateOf("more"), wire::QUEUED);
  EXPECT_EQ(cluster.Node("node-1").used_slots(), 17u);
}

TEST(Placing, ANodeOfManySlotsThatJoinsLaterDisturbsNobody) {
  Cluster cluster;
  cluster.Join("node-1", 2);
  cluster.Submit(Gang("a", 1));
  cluster.Join("node-2", 64);
  EXPECT_EQ(cluster.StateOf("a"), wire::RUNNING);
  EXPECT_EQ(cluster.Job("a").epoch(), 1u);
  cluster.Submit(Gang("b", 1, 60));
  EXPECT_THAT(cluster.GangOf("b"), ElementsAre("node-2"));
}

// ---------------------------------------------------------------------------------- preemption

TEST(Preemption, TakesASnapshotStopsAndGoesOnLaterFromThere) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(Gang("low", 2));
  for (int i = 0; i < 5; ++i) cluster.Step("low");
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  EXPECT_EQ(cluster.StateOf("low"), wire::LEAVING) << "a snapshot first";
  EXPECT_EQ(cluster.StateOf("high"), wire::QUEUED);
  cluster.Step("low");
  EXPECT_EQ(cluster.StateOf("low"), wire::QUEUED);
  EXPECT_EQ(cluster.StateOf("high"), wire::RUNNING);
  EXPECT_EQ(cluster.Job("low").memory_step(), 6u);
  EXPECT_EQ(cluster.Job("low").preemptions(), 1u);
  cluster.Step("high");
  cluster.Stop("high");
  EXPECT_EQ(cluster.StateOf("low"), wire::RUNNING);
  const auto start = cluster.LastStart("low", "node-1");
  EXPECT_EQ(start.restore().step(), 6u);
  EXPECT_EQ(start.restore().tier(), wire::Restore::TIER_MEMORY);
  EXPECT_EQ(cluster.Job("low").faults_size(), 0);
  EXPECT_EQ(cluster.Job("low").restarts(), 0u) << "being stopped for others costs no restart";
  cluster.Step("low");
  EXPECT_EQ(cluster.Job("low").step(), 7u);
}

TEST(Preemption, TheWinnerWaitsUntilTheWorkersHaveEnded) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("low", 1));
  cluster.Step("low");
  cluster.closes = false;
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  cluster.Step("low");
  EXPECT_EQ(cluster.StateOf("low"), wire::LEAVING);
  EXPECT_EQ(cluster.StateOf("high"), wire::QUEUED);
  EXPECT_THAT(cluster.Job("high").reason(), HasSubstr("starts once node-1 is free"));
  EXPECT_EQ(cluster.Node("node-1").used_slots(), 2u);
  cluster.TickUntil(cluster.now + seconds(6));
  EXPECT_EQ(cluster.StateOf("high"), wire::RUNNING) << "they did not answer in time";
}

TEST(Preemption, LeavesWithoutASnapshotThatDoesNotCome) {
  Cluster cluster("scheduling: {snapshot_patience: 3s}");
  cluster.Join("node-1");
  cluster.Submit(Gang("low", 1));
  cluster.Step("low");
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  EXPECT_EQ(cluster.StateOf("low"), wire::LEAVING);
  cluster.TickUntil(cluster.now + seconds(4));
  EXPECT_EQ(cluster.StateOf("low"), wire::QUEUED);
  EXPECT_EQ(cluster.StateOf("high"), wire::RUNNING);
}

TEST(Preemption, AFaultWhileLeavingDoesNotBringTheJobBack) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("low", 1));
  cluster.Step("low");
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  ASSERT_EQ(cluster.StateOf("low"), wire::LEAVING);
  cluster.Lose("node-1");
  EXPECT_EQ(cluster.StateOf("low"), wire::QUEUED);
  EXPECT_EQ(cluster.StateOf("high"), wire::QUEUED);
  cluster.Join("node-1", 2, 2);
  EXPECT_EQ(cluster.StateOf("high"), wire::RUNNING);
  cluster.Stop("high");
  EXPECT_EQ(cluster.StateOf("low"), wire::RUNNING);
  EXPECT_EQ(cluster.LastStart("low", "node-1").restore().step(), 0u) << "its memory is gone";
}

TEST(Preemption, AJobThatIsStoppedWhileItLeavesEnds) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("low", 1));
  cluster.Step("low");
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  cluster.Stop("low");
  EXPECT_EQ(cluster.StateOf("low"), wire::STOPPED);
  EXPECT_EQ(cluster.StateOf("high"), wire::RUNNING);
}

TEST(Preemption, AStoppedJobsSnapshotStillReachesTheDisk) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("low", 1));
  cluster.Step("low");
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  cluster.Step("low");
  ASSERT_EQ(cluster.StateOf("low"), wire::QUEUED);
  cluster.Persist("low", "node-1", 1, 2);
  EXPECT_EQ(cluster.Job("low").committed_step(), 2u);
  cluster.Join("node-2");
  EXPECT_THAT(cluster.GangOf("low"), ElementsAre("node-2"));
  const auto start = cluster.LastStart("low", "node-2");
  EXPECT_EQ(start.restore().step(), 2u);
  EXPECT_EQ(start.restore().tier(), wire::Restore::TIER_DISK);
}

// --------------------------------------------------------------------------- cordon and drain

TEST(Drain, ACordonedNodeKeepsItsWorkersAndTakesNoNewOnes) {
  Cluster cluster;
  cluster.Join("node-1", 4);
  cluster.Submit(Gang("a", 1));
  cluster.Cordon("node-1", true);
  cluster.Submit(Gang("b", 1));
  EXPECT_EQ(cluster.StateOf("a"), wire::RUNNING);
  EXPECT_EQ(cluster.StateOf("b"), wire::QUEUED);
  EXPECT_EQ(cluster.Node("node-1").condition(), "cordoned");
  cluster.Cordon("node-1", false);
  EXPECT_EQ(cluster.StateOf("b"), wire::RUNNING);
}

TEST(Drain, MovesAGangsPartWithItsNewestSnapshot) {
  Cluster cluster;
  for (const char* node : {"node-1", "node-2", "node-3"}) cluster.Join(node);
  cluster.Submit(Gang("a", 2));
  for (int i = 0; i < 3; ++i) cluster.Step("a");
  cluster.Cordon("node-1", true, true);
  EXPECT_EQ(cluster.StateOf("a"), wire::LEAVING);
  cluster.Step("a");
  EXPECT_EQ(cluster.StateOf("a"), wire::LEAVING) << "node-3 needs the snapshot from disk";
  cluster.Persist("a", "node-1", 1, 4);
  EXPECT_EQ(cluster.StateOf("a"), wire::RUNNING);
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-3", "node-2")) << "node-2 keeps its rank";
  EXPECT_EQ(cluster.LastStart("a", "node-3").restore().tier(), wire::Restore::TIER_DISK);
  EXPECT_EQ(cluster.LastStart("a", "node-2").restore().tier(), wire::Restore::TIER_MEMORY);
  EXPECT_EQ(cluster.LastStart("a", "node-2").restore().step(), 4u);
  EXPECT_EQ(cluster.Node("node-1").used_slots(), 0u);
  EXPECT_EQ(cluster.Job("a").moves(), 1u);
  EXPECT_EQ(cluster.Job("a").faults_size(), 0);
}

TEST(Drain, StopsAndQueuesWhatFindsNoOtherPlaceInTime) {
  Cluster cluster("scheduling: {repair_patience: 5min}");
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  cluster.Step("a");
  cluster.Cordon("node-1", true, true);
  EXPECT_EQ(cluster.StateOf("a"), wire::RUNNING) << "it runs on as long as it may";
  cluster.TickUntil(cluster.now + minutes(4));
  EXPECT_EQ(cluster.StateOf("a"), wire::RUNNING);
  cluster.TickUntil(cluster.now + minutes(1) + seconds(1));
  EXPECT_EQ(cluster.StateOf("a"), wire::LEAVING);
  cluster.Step("a");
  EXPECT_EQ(cluster.StateOf("a"), wire::QUEUED);
  EXPECT_EQ(cluster.Node("node-1").used_slots(), 0u);
  cluster.Cordon("node-1", false);
  EXPECT_EQ(cluster.StateOf("a"), wire::RUNNING);
  EXPECT_EQ(cluster.LastStart("a", "node-1").restore().step(), 2u);
}

TEST(Drain, LeavesJobsThatNobodyMayStop) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  wire::Job job = Gang("a", 1);
  job.mutable_scheduling()->set_preemption("never");
  cluster.Submit(job);
  cluster.Step("a");
  cluster.Cordon("node-1", true, true);
  cluster.TickUntil(cluster.now + minutes(60));
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-1"));
  EXPECT_EQ(cluster.Job("a").epoch(), 1u);
}

TEST(Drain, TakenBackInTimeChangesNothing) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  cluster.Step("a");
  cluster.Cordon("node-1", true, true);
  cluster.Cordon("node-1", false);
  cluster.TickUntil(cluster.now + minutes(20));
  EXPECT_EQ(cluster.StateOf("a"), wire::RUNNING);
  EXPECT_EQ(cluster.Job("a").epoch(), 1u);
}

// -------------------------------------------------------------------------------------- faults

TEST(Repair, KeepsTheSurvivorsAndTakesASpare) {
  Cluster cluster;
  for (const char* node : {"node-1", "node-2", "node-3"}) cluster.Join(node);
  cluster.Submit(Gang("a", 2));
  cluster.Step("a");
  cluster.Lose("node-1");
  EXPECT_EQ(cluster.StateOf("a"), wire::RUNNING);
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-3", "node-2"));
  EXPECT_THAT(cluster.Job("a").faults(0).action(), HasSubstr("replace the node"));
}

TEST(Repair, GivesTheSurvivorsBackWhenNoNodeComes) {
  Cluster cluster("scheduling: {repair_patience: 5min}");
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(Gang("a", 2));
  cluster.Step("a");
  cluster.Submit(Gang("b", 1));
  cluster.Lose("node-1");
  EXPECT_EQ(cluster.StateOf("a"), wire::RECOVERING);
  EXPECT_EQ(cluster.StateOf("b"), wire::QUEUED);
  cluster.TickUntil(cluster.now + minutes(6));
  EXPECT_EQ(cluster.StateOf("a"), wire::QUEUED);
  EXPECT_EQ(cluster.StateOf("b"), wire::RUNNING);
  cluster.Join("node-3");
  EXPECT_EQ(cluster.StateOf("a"), wire::QUEUED);
  cluster.Join("node-4");
  EXPECT_EQ(cluster.StateOf("a"), wire::RUNNING);
  EXPECT_GT(cluster.Job("a").faults(0).decided_at_ns(), 0);
}

// ------------------------------------------------------------------------------- configuration

constexpr const char* kLabs = R"(
queues:
  - {name: red, guarantee: {cards: 2}}
  - {name: blue, guarantee: {cards: 2}}
default_queue: red
priorities: {high: 50}
)";

wire::Job InQueue(wire::Job job, const std::string& queue) {
  job.mutable_scheduling()->set_queue(queue);
  return job;
}

TEST(Queues, LendWhatIsIdleAndTakeItBack) {
  Cluster cluster(kLabs);
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(Gang("r1", 1));
  cluster.Submit(Gang("r2", 1));
  cluster.Step("r1");
  cluster.Step("r2");
  const auto queues = cluster.controller.Queues();
  ASSERT_EQ(queues.size(), 3u);
  EXPECT_EQ(queues[1].name(), "red");
  EXPECT_EQ(queues[1].usage().cards(), 4);
  EXPECT_EQ(queues[1].borrowed().cards(), 2);
  EXPECT_EQ(queues[1].running(), 2u);
  cluster.Submit(InQueue(Gang("b1", 1), "blue"));
  cluster.Step("r2");
  EXPECT_EQ(cluster.StateOf("b1"), wire::RUNNING);
  EXPECT_EQ(cluster.StateOf("r1"), wire::RUNNING);
  EXPECT_EQ(cluster.StateOf("r2"), wire::QUEUED) << "the newer one had borrowed";
}

TEST(Queues, RefuseWhatCanNeverRun) {
  Cluster cluster(kLabs);
  cluster.Join("node-1");
  const auto says = [&](const wire::Job& job) {
    return cluster.controller.CheckSubmission(job).message();
  };
  EXPECT_THAT(says(InQueue(Gang("a", 1), "green")), HasSubstr("there is no queue 'green'"));
  wire::Job job = Gang("a", 1);
  job.mutable_scheduling()->set_priority_name("urgent");
  EXPECT_THAT(says(job), HasSubstr("no priority named 'urgent'"));
  job = Gang("a", 1);
  job.mutable_scheduling()->set_topology("block");
  EXPECT_THAT(says(job), HasSubstr("no level 'block'"));
  job = Gang("a", 1);
  job.mutable_scheduling()->set_preemption("often");
  EXPECT_THAT(says(job), HasSubstr("'often' is not never"));
  EXPECT_TRUE(cluster.controller.CheckSubmission(Gang("a", 1)).ok());
}

TEST(Configuration, AChangedFileTakesEffectAtARestartAndKeepsWhatRuns) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(Gang("a", 1));
  cluster.Submit(Gang("b", 2));
  cluster.Step("a");
  cluster.Started(kLabs);
  EXPECT_EQ(cluster.StateOf("a"), wire::RUNNING);
  EXPECT_EQ(cluster.StateOf("b"), wire::QUEUED);
  for (const char* node : {"node-1", "node-2"}) cluster.Join(node, 2, 1);
  EXPECT_EQ(cluster.controller.Queues().size(), 3u);
  EXPECT_EQ(cluster.Job("a").epoch(), 1u);
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-1"));
}

TEST(Configuration, ADeclaredClusterRefusesWhatIsLarger) {
  wire::SchedulingConfiguration file;
  file.set_text("cluster: two.yaml\n");
  file.set_cluster_text(kTwoNodes);
  ASSERT_TRUE(Controller::CheckConfiguration(file).ok()) << Controller::CheckConfiguration(file);
  Cluster cluster(file.text(), file.cluster_text());
  cluster.Join("node-1");
  cluster.Submit(Gang("small", 1));
  EXPECT_THAT(cluster.controller.CheckSubmission(Gang("large", 3)).message(),
              HasSubstr("the largest size that fits this cluster is 2"));
  wire::Job near = Gang("near", 2);
  near.mutable_scheduling()->set_topology("leaf");
  EXPECT_THAT(cluster.controller.CheckSubmission(near).message(),
              HasSubstr("one of its domains is 1"));
  cluster.Submit(Gang("both", 2));
  EXPECT_EQ(cluster.StateOf("both"), wire::QUEUED);
  cluster.Stop("small");
  cluster.Join("node-2");
  EXPECT_EQ(cluster.StateOf("both"), wire::RUNNING);
}

TEST(Configuration, RefusesPromisesThatADeclaredClusterCannotKeep) {
  wire::SchedulingConfiguration file;
  file.set_text("cluster: two.yaml\nqueues: [{name: a, guarantee: {cards: 5}}]\n");
  file.set_cluster_text(kTwoNodes);
  const Status refused = Controller::CheckConfiguration(file);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("5 cards"));
  file.set_cluster_text("nodes: 3");
  EXPECT_THAT(Controller::CheckConfiguration(file).message(), HasSubstr("two.yaml:1"));
}

// ------------------------------------------------------------------------------------- restarts

TEST(Restart, AReplayWithQueuedAndRunningAndLeavingJobsGivesTheSameState) {
  Cluster cluster(kLabs);
  cluster.Join("node-1");
  cluster.Join("node-2", 20);
  cluster.Submit(Gang("low", 1));
  cluster.Submit(Gang("wide", 1, 18));
  cluster.Submit(Gang("never", 9));
  cluster.Step("low");
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  cluster.Cordon("node-2", true, true);
  cluster.Lose("node-2");
  Controller replayed{Cluster::Patient()};
  for (const auto& [now, event] : cluster.log) (void)replayed.Step(event, now);
  EXPECT_EQ(replayed.StateHash(), cluster.controller.StateHash());
  EXPECT_TRUE(replayed.CheckPlaces().ok()) << replayed.CheckPlaces();
}

TEST(Restart, ALeavingGangIsToldAgainWhatToDo) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("low", 1));
  cluster.Step("low");
  cluster.closes = false;
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  cluster.Step("low");
  cluster.Started("");
  EXPECT_EQ(cluster.StateOf("low"), wire::LEAVING);
  cluster.closes = true;
  cluster.Join("node-1", 2, 1);
  EXPECT_EQ(cluster.StateOf("low"), wire::QUEUED);
  EXPECT_EQ(cluster.StateOf("high"), wire::RUNNING);
}

}  // namespace
}  // namespace longhaul::runtime
