#include "runtime/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <string>
#include <vector>

namespace longhaul::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kBatch = 32;

wire::Job TwoByTwo() {
  wire::Job job;
  job.set_id("gpt-1");
  job.set_nodes(2);
  job.set_processes_per_node(2);
  job.mutable_workload()->set_built_in(true);
  job.set_total_steps(100);
  job.set_max_restarts(10);
  job.mutable_snapshot()->set_keep(2);
  job.mutable_snapshot()->set_replicated(true);
  job.mutable_data()->set_samples(1000);
  job.mutable_data()->set_global_batch(kBatch);
  return job;
}

// A controller with hand-moved agents: each method is one event of one of them.
class Cluster {
 public:
  explicit Cluster(const ControllerOptions& options = {}) : controller(options) {
    wire::Event event;
    event.mutable_controller_started();
    Feed(event);
  }

  Actions Feed(wire::Event event, bool from_agent = false, const std::string& node = "") {
    if (from_agent) {
      event.set_node(node);
      event.set_incarnation(incarnation[node]);
      event.set_sequence(++sequence[node]);
      if (event.at_ns() == 0) event.set_at_ns(ToNanoseconds(now));
    }
    log.emplace_back(now, event);
    Actions actions = controller.Step(event, now);
    EXPECT_TRUE(controller.CheckInvariants().ok()) << controller.CheckInvariants();
    EXPECT_TRUE(controller.CheckPlaces().ok()) << controller.CheckPlaces();
    for (const auto& [id, command] : actions.commands) sent.emplace_back(id.value(), command);
    return actions;
  }

  void Join(const std::string& node, uint64_t life = 1) {
    incarnation[node] = life;
    if (life > 1) sequence[node] = 0;
    wire::Event event;
    event.mutable_agent_joined()->set_slots(2);
    event.mutable_agent_joined()->set_address("127.0.0.1");
    event.mutable_agent_joined()->set_peer_port(peer_port);
    Feed(event, true, node);
  }
  void Disconnect(const std::string& node) {
    wire::Event event;
    event.set_node(node);
    event.set_incarnation(incarnation[node]);
    event.set_at_ns(ToNanoseconds(now));
    event.mutable_agent_disconnected()->set_reason("reset");
    Feed(event);
  }
  void Submit(const wire::Job& job) {
    wire::Event event;
    *event.mutable_job_submitted()->mutable_job() = job;
    Feed(event);
  }
  template <typename Message>
  void Report(const std::string& node, Message* (wire::Event::*field)(), Message message) {
    wire::Event event;
    *(event.*field)() = std::move(message);
    Feed(event, true, node);
  }

  // All of the node's answers up to the first step of the job's present epoch.
  void Start() {
    const uint64_t epoch = Job().epoch();
    wire::StoreOpened opened;
    opened.set_job_id("gpt-1");
    opened.set_epoch(epoch);
    opened.set_port(4000);
    Report("node-1", &wire::Event::mutable_store_opened, opened);
    for (const char* node : {"node-1", "node-2"}) {
      wire::WorkersStarted started;
      started.set_job_id("gpt-1");
      started.set_epoch(epoch);
      Report(node, &wire::Event::mutable_workers_started, started);
    }
    for (const auto phase : {wire::PhaseEntered::RENDEZVOUS, wire::PhaseEntered::RESTORE,
                             wire::PhaseEntered::STEPPING}) {
      now += milliseconds(10);
      for (const char* node : {"node-1", "node-2"}) {
        wire::PhaseEntered entered;
        entered.set_job_id("gpt-1");
        entered.set_epoch(epoch);
        entered.set_phase(phase);
        Report(node, &wire::Event::mutable_phase_entered, entered);
      }
    }
  }
  // A step of 100 ms on both nodes.
  void Step(uint64_t step) {
    now += milliseconds(100);
    for (const char* node : {"node-1", "node-2"}) {
      wire::StepReported report;
      report.set_job_id("gpt-1");
      report.set_epoch(Job().epoch());
      report.set_first_step(step);
      report.set_last_step(step);
      report.set_has_loss(node == std::string("node-1"));
      report.set_loss(5.0);
      Report(node, &wire::Event::mutable_step_reported, report);
    }
  }
  void Steps(uint64_t first, uint64_t last) {
    for (uint64_t step = first; step <= last; ++step) Step(step);
  }
  void Seal(const std::string& node, uint64_t step) {
    wire::SnapshotSealed sealed;
    sealed.set_job_id("gpt-1");
    sealed.set_epoch(Job().epoch());
    sealed.set_step(step);
    sealed.set_blocked_ns(1'000'000);
    Report(node, &wire::Event::mutable_snapshot_sealed, sealed);
  }
  void SealAll(uint64_t step) {
    Seal("node-1", step);
    Seal("node-2", step);
  }
  // Rank 0's piece reaches the disk and is committed.
  void Save(uint64_t step) {
    wire::SnapshotPersisted persisted;
    persisted.set_job_id("gpt-1");
    persisted.set_epoch(Job().epoch());
    persisted.set_step(step);
    persisted.add_files()->set_name("rank-0");
    Report("node-1", &wire::Event::mutable_snapshot_persisted, persisted);
    wire::SnapshotCommitted committed;
    committed.set_job_id("gpt-1");
    committed.set_epoch(Job().epoch());
    committed.set_step(step);
    Report("node-1", &wire::Event::mutable_snapshot_committed, committed);
  }
  void Exit(const std::string& node, uint32_t rank, int exit_code, int signal, uint64_t epoch = 0) {
    wire::WorkerExited exited;
    exited.set_job_id("gpt-1");
    exited.set_epoch(epoch == 0 ? Job().epoch() : epoch);
    exited.set_rank(rank);
    exited.set_exit_code(exit_code);
    exited.set_signal(signal);
    Report(node, &wire::Event::mutable_worker_exited, exited);
  }
  void TickAt(Instant at) {
    now = at;
    wire::Event event;
    event.mutable_tick();
    Feed(event);
  }
  // Lets every deadline up to `until` pass.
  void TickUntil(Instant until) {
    while (controller.NextDeadline().has_value() && *controller.NextDeadline() <= until) {
      TickAt(*controller.NextDeadline());
    }
    now = until;
  }

  wire::JobStatus Job() const { return *controller.JobStatus(JobId("gpt-1"), now); }
  // The last command of a kind to a node; fails the test when there is none.
  wire::Command Last(const std::string& node, wire::Command::KindCase kind) const {
    for (auto entry = sent.rbegin(); entry != sent.rend(); ++entry) {
      if (entry->first == node && entry->second.kind_case() == kind) return entry->second;
    }
    ADD_FAILURE() << "no such command to " << node;
    return {};
  }

  // The node's snapshot is sealed in another one's memory.
  void Copy(const std::string& node, uint64_t step, const std::string& holder) {
    wire::SnapshotReplicated replicated;
    replicated.set_job_id("gpt-1");
    replicated.set_epoch(Job().epoch());
    replicated.set_step(step);
    replicated.set_holder(holder);
    Report(node, &wire::Event::mutable_snapshot_replicated, replicated);
  }
  void CopyFails(const std::string& node, uint64_t step) {
    wire::SnapshotFailed failed;
    failed.set_job_id("gpt-1");
    failed.set_epoch(Job().epoch());
    failed.set_step(step);
    failed.set_while_restoring(true);
    failed.set_tier(wire::Restore::TIER_PEER);
    failed.set_reason("the hash differs");
    Report(node, &wire::Event::mutable_snapshot_failed, failed);
  }
  wire::Restore RestoreOf(const std::string& node) const {
    return Last(node, wire::Command::kStartWorkers).start_workers().restore();
  }

  Controller controller;
  uint32_t peer_port = 0;  // of agents that join
  Instant now = InstantFromNanoseconds(1'000'000'000'000);
  std::map<std::string, uint64_t> incarnation;
  std::map<std::string, uint64_t> sequence;
  std::vector<std::pair<std::string, wire::Command>> sent;
  std::vector<std::pair<Instant, wire::Event>> log;
};

Cluster Running(const ControllerOptions& options = {}) {
  Cluster cluster(options);
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(TwoByTwo());
  cluster.Start();
  return cluster;
}

TEST(Controller, WaitsForEnoughNodesAndSaysSo) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(TwoByTwo());
  EXPECT_EQ(cluster.Job().state(), wire::QUEUED);
  EXPECT_THAT(cluster.Job().reason(), testing::HasSubstr("2"));
  cluster.Join("node-2");
  EXPECT_EQ(cluster.Job().state(), wire::STARTING);
  EXPECT_EQ(cluster.Job().epoch(), 1u);
  EXPECT_TRUE(cluster.Last("node-1", wire::Command::kOpenStore).has_open_store());
}

TEST(Controller, StartsBothNodesOnceTheStoreIsOpen) {
  Cluster cluster = Running();
  const auto start = cluster.Last("node-2", wire::Command::kStartWorkers).start_workers();
  EXPECT_EQ(start.node_rank(), 1u);
  EXPECT_EQ(start.first_rank(), 2u);
  EXPECT_EQ(start.world(), 4u);
  EXPECT_EQ(start.master_port(), 4000u);
  EXPECT_EQ(start.lease().first_step(), 1u);
  EXPECT_EQ(start.lease().end_step(), 101u);
  EXPECT_EQ(start.restore().tier(), wire::Restore::TIER_NONE);
  EXPECT_EQ(cluster.Job().state(), wire::RUNNING);
}

TEST(Controller, RestartsAKilledWorkersGangFromMemory) {
  Cluster cluster = Running();
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  cluster.Steps(11, 13);
  cluster.Exit("node-1", 1, -1, SIGKILL);
  EXPECT_EQ(cluster.Job().state(), wire::RECOVERING);
  EXPECT_EQ(cluster.Job().epoch(), 2u);
  cluster.Start();
  const auto start = cluster.Last("node-2", wire::Command::kStartWorkers).start_workers();
  EXPECT_EQ(start.epoch(), 2u);
  EXPECT_EQ(start.restore().tier(), wire::Restore::TIER_MEMORY);
  EXPECT_EQ(start.restore().step(), 10u);
  EXPECT_EQ(start.lease().first_step(), 11u);
  cluster.Steps(11, 14);
  const wire::JobStatus job = cluster.Job();
  ASSERT_EQ(job.faults_size(), 1);
  const wire::Fault& fault = job.faults(0);
  EXPECT_EQ(fault.class_name(), "process");
  EXPECT_EQ(fault.rank(), 1);
  EXPECT_EQ(fault.lost_steps(), 3u);
  EXPECT_GT(fault.first_step_at_ns(), fault.stepping_at_ns());
  EXPECT_GT(fault.new_step_at_ns(), fault.first_step_at_ns());
  // Three steps of 100 ms on four ranks were thrown away.
  for (const auto& entry : job.ledger().categories()) {
    if (entry.category() != wire::LOST_WORK) continue;
    EXPECT_NEAR(entry.rank_seconds(), 1.2, 1e-9);
  }
}

// The loss may be noticed only when the other workers have done all steps.
TEST(Controller, CallsAFaultAfterTheLastStepRecovered) {
  Cluster cluster = Running();
  constexpr uint64_t kLast = 100;  // the job has no more
  cluster.Steps(1, kLast - 2);
  cluster.SealAll(kLast - 2);
  cluster.Steps(kLast - 1, kLast);
  cluster.Exit("node-1", 1, -1, SIGKILL);
  cluster.Start();
  cluster.Steps(kLast - 1, kLast - 1);
  EXPECT_EQ(cluster.Job().faults(0).new_step_at_ns(), 0);
  cluster.Steps(kLast, kLast);
  EXPECT_GT(cluster.Job().faults(0).new_step_at_ns(), 0);
  // The newest snapshot is the end itself: nothing is left to do again.
  cluster.SealAll(kLast);
  cluster.Exit("node-1", 1, -1, SIGKILL);
  cluster.Start();
  EXPECT_EQ(cluster.Job().faults(1).new_step_at_ns(), 0);
  for (int rank = 0; rank < 4; ++rank) cluster.Exit(rank < 2 ? "node-1" : "node-2", rank, 0, 0);
  EXPECT_GT(cluster.Job().faults(1).new_step_at_ns(), 0);
}

TEST(Controller, FallsBackToDiskWhenANodeIsLost) {
  Cluster cluster = Running();
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  cluster.Save(10);
  cluster.Steps(11, 12);
  cluster.SealAll(12);
  cluster.Disconnect("node-2");
  cluster.TickUntil(cluster.now + seconds(2));
  EXPECT_EQ(cluster.Job().state(), wire::RECOVERING);
  EXPECT_THAT(cluster.Job().reason(), testing::HasSubstr("waiting for a node"));
  cluster.Join("node-2", 2);
  cluster.Start();
  const auto lost = cluster.Last("node-2", wire::Command::kStartWorkers).start_workers();
  const auto kept = cluster.Last("node-1", wire::Command::kStartWorkers).start_workers();
  EXPECT_EQ(lost.restore().step(), 10u);
  EXPECT_EQ(lost.restore().tier(), wire::Restore::TIER_DISK);
  EXPECT_EQ(lost.restore().saved_epoch(), 1u);
  EXPECT_EQ(kept.restore().step(), 10u);
  EXPECT_EQ(kept.restore().tier(), wire::Restore::TIER_MEMORY);
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "node");
}

// Two nodes that keep copies for each other, each rank with a state of its own unless `replicated`.
Cluster RunningWithPeers(bool replicated = false) {
  Cluster cluster;
  cluster.peer_port = 7000;
  cluster.Join("node-1");
  cluster.Join("node-2");
  wire::Job job = TwoByTwo();
  job.mutable_snapshot()->set_replicated(replicated);
  cluster.Submit(job);
  cluster.Start();
  return cluster;
}

void LoseAndReturn(Cluster& cluster, const std::string& node) {
  cluster.Disconnect(node);
  cluster.TickUntil(cluster.now + seconds(2));
  cluster.Join(node, cluster.incarnation[node] + 1);
  cluster.Start();
}

TEST(ControllerPeers, EachNodeIsGivenTheNextOneAsItsKeeper) {
  Cluster cluster = RunningWithPeers();
  const auto one = cluster.Last("node-1", wire::Command::kStartWorkers).start_workers();
  const auto two = cluster.Last("node-2", wire::Command::kStartWorkers).start_workers();
  EXPECT_EQ(one.peer_node(), "node-2");
  EXPECT_EQ(one.peer_port(), 7000u);
  EXPECT_EQ(two.peer_node(), "node-1");
  Cluster without = Running();
  EXPECT_EQ(without.Last("node-1", wire::Command::kStartWorkers).start_workers().peer_port(), 0u);
}

TEST(ControllerPeers, ALostNodesStateComesFromItsKeepersMemory) {
  Cluster cluster = RunningWithPeers();
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  cluster.Copy("node-1", 10, "node-2");
  cluster.Copy("node-2", 10, "node-1");
  cluster.Steps(11, 12);
  cluster.SealAll(12);  // sealed, but the copy of node 2 has not arrived
  cluster.Copy("node-1", 12, "node-2");
  LoseAndReturn(cluster, "node-2");
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), wire::Restore::TIER_PEER);
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 10u);
  EXPECT_EQ(cluster.RestoreOf("node-2").source_port(), 7000u);
  EXPECT_FALSE(cluster.RestoreOf("node-2").has_source_rank()) << "each rank its own";
  EXPECT_EQ(cluster.RestoreOf("node-1").tier(), wire::Restore::TIER_MEMORY);
  EXPECT_EQ(cluster.RestoreOf("node-1").step(), 10u);
  EXPECT_THAT(cluster.Job().faults(0).action(), testing::HasSubstr("a peer's memory"));
}

TEST(ControllerPeers, CopiesGoWithTheirKeepersMemory) {
  Cluster cluster = RunningWithPeers();
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  cluster.Copy("node-2", 10, "node-1");
  // The keeper is lost first and comes back empty; then the one whose copies it had.
  LoseAndReturn(cluster, "node-1");
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), wire::Restore::TIER_NONE) << "node 1 had no copy";
  Cluster other = RunningWithPeers();
  other.Steps(1, 10);
  other.SealAll(10);
  other.Copy("node-1", 10, "node-2");
  other.Copy("node-2", 10, "node-1");
  LoseAndReturn(other, "node-1");
  ASSERT_EQ(other.RestoreOf("node-1").tier(), wire::Restore::TIER_PEER);
  LoseAndReturn(other, "node-2");
  EXPECT_EQ(other.RestoreOf("node-2").tier(), wire::Restore::TIER_NONE)
      << "its copy died with the first life of node 1";
}

TEST(ControllerPeers, ABadCopyIsNotOfferedAgain) {
  Cluster cluster = RunningWithPeers();
  cluster.Steps(1, 10);
  cluster.SealAll(8);
  cluster.SealAll(10);
  for (const uint64_t step : {8u, 10u}) {
    cluster.Copy("node-1", step, "node-2");
    cluster.Copy("node-2", step, "node-1");
  }
  LoseAndReturn(cluster, "node-2");
  ASSERT_EQ(cluster.RestoreOf("node-2").step(), 10u);
  const uint64_t epoch = cluster.Job().epoch();
  cluster.CopyFails("node-2", 10);
  cluster.Exit("node-2", 2, 75, 0);
  cluster.TickUntil(cluster.now + seconds(2));
  ASSERT_GT(cluster.Job().epoch(), epoch);
  cluster.Start();
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 8u);
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), wire::Restore::TIER_PEER);
  EXPECT_EQ(cluster.RestoreOf("node-1").step(), 8u) << "all ranks the same step";
}

TEST(ControllerPeers, ReplicatedStateComesFromAnyOtherNodesOwn) {
  Cluster cluster = RunningWithPeers(true);
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  LoseAndReturn(cluster, "node-2");
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), wire::Restore::TIER_PEER);
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 10u);
  EXPECT_EQ(cluster.RestoreOf("node-2").source_rank(), 0u);
}

TEST(Controller, AnAgentBackWithinItsGraceDisturbsNobody) {
  Cluster cluster = Running();
  cluster.Steps(1, 3);
  cluster.Disconnect("node-2");
  cluster.now += milliseconds(500);
  cluster.Join("node-2", 1);
  cluster.TickUntil(cluster.now + seconds(5));
  cluster.Steps(4, 5);
  EXPECT_EQ(cluster.Job().epoch(), 1u);
  EXPECT_EQ(cluster.Job().faults_size(), 0);
  EXPECT_EQ(cluster.Job().step(), 5u);
}

TEST(Controller, APeersExitIsNotTakenForTheCauseOfANodesDeath) {
  Cluster cluster = Running();
  cluster.Steps(1, 3);
  cluster.Exit("node-1", 0, 1, 0);
  EXPECT_EQ(cluster.Job().epoch(), 1u) << "decides only after the evidence window";
  cluster.Disconnect("node-2");
  cluster.Join("node-2", 2);
  ASSERT_EQ(cluster.Job().faults_size(), 1);
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "node");
  EXPECT_EQ(cluster.Job().faults(0).node(), "node-2");
  EXPECT_EQ(cluster.Job().epoch(), 2u);
}

TEST(Controller, ALaterFoundCauseReplacesItsConsequence) {
  Cluster cluster = Running();
  cluster.Exit("node-2", 2, 1, 0);
  cluster.TickUntil(cluster.now + milliseconds(100));
  EXPECT_EQ(cluster.Job().faults(0).rank(), 2);
  cluster.Exit("node-1", 1, -1, SIGKILL, 1);
  EXPECT_EQ(cluster.Job().faults(0).rank(), 1);
  EXPECT_EQ(cluster.Job().faults_size(), 1);
}

TEST(Controller, StopsAJobThatFailsAgainAndAgainWithoutAStep) {
  Cluster cluster = Running();
  for (int i = 0; i < 10 && !IsTerminal(cluster.Job().state()); ++i) {
    cluster.Exit("node-1", 0, 1, 0);
    cluster.TickUntil(cluster.now + milliseconds(100));
    if (!IsTerminal(cluster.Job().state())) cluster.Start();
  }
  EXPECT_EQ(cluster.Job().state(), wire::FAILED);
  EXPECT_THAT(cluster.Job().reason(), testing::HasSubstr("worker 0 exited with code 1"));
}

// It never reports a step; to have run for long is all that speaks for it.
TEST(Controller, CountsACommandThatLastedAsProgress) {
  wire::Job command = TwoByTwo();
  command.mutable_workload()->set_built_in(false);
  command.mutable_workload()->set_torch_version("2.1.0");
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(command);
  EXPECT_EQ(cluster.Last("node-1", wire::Command::kOpenStore).open_store().torch_version(),
            "2.1.0");
  cluster.Start();
  for (int i = 0; i < 8; ++i) {
    cluster.TickUntil(cluster.now + std::chrono::minutes(11));
    cluster.Exit("node-1", 0, 1, 0);
    cluster.TickUntil(cluster.now + milliseconds(100));
    cluster.Start();
  }
  EXPECT_EQ(cluster.Job().restarts(), 8u);
  EXPECT_EQ(cluster.Job().faults(7).action(), "restart all workers");
  for (int i = 0; i < 5 && !IsTerminal(cluster.Job().state()); ++i) {
    cluster.Exit("node-1", 0, 1, 0);
    cluster.TickUntil(cluster.now + milliseconds(100));
    if (!IsTerminal(cluster.Job().state())) cluster.Start();
  }
  EXPECT_EQ(cluster.Job().state(), wire::FAILED);
}

TEST(Controller, SucceedsOnceTheLastCheckpointIsOnDisk) {
  Cluster cluster = Running();
  cluster.Steps(1, 100);
  cluster.SealAll(100);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    cluster.Exit(rank < 2 ? "node-1" : "node-2", rank, 0, 0);
  }
  EXPECT_FALSE(IsTerminal(cluster.Job().state()));
  cluster.Save(100);
  EXPECT_EQ(cluster.Job().state(), wire::SUCCEEDED);
  EXPECT_TRUE(cluster.Last("node-2", wire::Command::kForgetJob).has_forget_job());
  EXPECT_EQ(cluster.Job().samples_committed(), 100 * kBatch);
  EXPECT_EQ(cluster.controller.AllNodes()[0].used_slots(), 0u);
}

TEST(Controller, FailsWhenTheLastCheckpointCannotBeWritten) {
  Cluster cluster = Running();
  cluster.Steps(1, 100);
  cluster.SealAll(100);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    cluster.Exit(rank < 2 ? "node-1" : "node-2", rank, 0, 0);
  }
  wire::SnapshotFailed failed;
  failed.set_job_id("gpt-1");
  failed.set_epoch(1);
  failed.set_step(100);
  failed.set_reason("no space left on device");
  cluster.Report("node-1", &wire::Event::mutable_snapshot_failed, failed);
  EXPECT_EQ(cluster.Job().state(), wire::FAILED);
  EXPECT_THAT(cluster.Job().reason(), testing::HasSubstr("no space left"));
}

TEST(Controller, ADamagedCopyInMemoryIsNeverOfferedAgain) {
  Cluster cluster = Running();
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  cluster.Save(10);
  cluster.Steps(11, 20);
  cluster.SealAll(20);
  cluster.Exit("node-1", 1, -1, SIGKILL);
  cluster.Start();
  wire::SnapshotFailed failed;
  failed.set_job_id("gpt-1");
  failed.set_epoch(2);
  failed.set_step(20);
  failed.set_while_restoring(true);
  failed.set_tier(wire::Restore::TIER_MEMORY);
  failed.set_rank(3);
  failed.set_reason("checksum of chunk 5");
  cluster.Report("node-2", &wire::Event::mutable_snapshot_failed, failed);
  EXPECT_EQ(cluster.Job().epoch(), 3u);
  cluster.Start();
  const auto start = cluster.Last("node-2", wire::Command::kStartWorkers).start_workers();
  EXPECT_EQ(start.restore().step(), 10u);
}

TEST(Controller, ContinuesAStoppedWorkerInsteadOfKillingIt) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  cluster.TickUntil(cluster.now + seconds(11));
  EXPECT_TRUE(
      cluster.Last("node-1", wire::Command::kProbeWorkers).probe_workers().resume_stopped());
  wire::WorkersProbed probed;
  probed.set_job_id("gpt-1");
  probed.set_epoch(1);
  auto* worker = probed.add_workers();
  worker->set_rank(0);
  worker->set_process_state("T");
  worker->set_resumed(true);
  cluster.Report("node-1", &wire::Event::mutable_workers_probed, probed);
  cluster.Steps(6, 7);
  EXPECT_EQ(cluster.Job().epoch(), 1u);
  ASSERT_EQ(cluster.Job().faults_size(), 1);
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "hang");
  EXPECT_GT(cluster.Job().faults(0).new_step_at_ns(), 0);
}

TEST(Controller, RestartsAHangThatProbingDoesNotHelp) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  cluster.TickUntil(cluster.now + seconds(25));
  EXPECT_EQ(cluster.Job().epoch(), 2u);
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "hang");
}

// Progress is told by the first worker's steps, and an export at the end takes none.
TEST(Controller, WhoGoesOnWhenAnotherHasEndedWellIsNotHung) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  cluster.Exit("node-1", 0, 0, 0);
  cluster.TickUntil(cluster.now + seconds(300));
  EXPECT_EQ(cluster.Job().epoch(), 1u);
  EXPECT_EQ(cluster.Job().faults_size(), 0);
  cluster.TickUntil(cluster.now + seconds(1000));
  EXPECT_EQ(cluster.Job().epoch(), 2u) << "not for ever";
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "hang");
}

// Says every 3 s that worker 3 waits, from `begin` on for so long.
void WaitForSlot(Cluster& cluster, Duration begin, Duration end) {
  for (Duration waited = begin; waited <= end; waited += seconds(3)) {
    wire::WorkerWaits waits;
    waits.set_job_id("gpt-1");
    waits.set_epoch(1);
    waits.set_rank(3);
    waits.set_step(6);
    waits.set_waited_ns(waited.count());
    waits.set_holders("step 4: process 7 writes it to disk");
    cluster.Report("node-2", &wire::Event::mutable_worker_waits, waits);
    cluster.TickUntil(cluster.now + seconds(3));
  }
}

TEST(Controller, AWorkerThatSaysThatItWaitsForASlotIsNotHung) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  WaitForSlot(cluster, seconds(3), seconds(300));
  EXPECT_EQ(cluster.Job().epoch(), 1u);
  cluster.Steps(6, 7);
  EXPECT_EQ(cluster.Job().faults_size(), 0);
}

TEST(Controller, AnEndlessWaitForASlotIsAHangThatNamesWhoIsWaitedFor) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  WaitForSlot(cluster, seconds(3), seconds(640));
  EXPECT_EQ(cluster.Job().epoch(), 2u);
  ASSERT_EQ(cluster.Job().faults_size(), 1);
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "hang");
  EXPECT_THAT(cluster.Job().faults(0).what(),
              testing::HasSubstr("worker 3 waits for a slot to take a snapshot of step 6 (step 4: "
                                 "process 7 writes it to disk)"));
}

TEST(Controller, AStepIsCountedOnceHoweverOftenItIsReported) {
  Cluster cluster = Running();
  cluster.Steps(1, 3);
  const double productive = cluster.Job().ledger().categories(0).rank_seconds();
  cluster.Step(3);
  cluster.Step(2);
  cluster.Step(9);
  EXPECT_EQ(cluster.Job().step(), 3u);
  EXPECT_EQ(cluster.Job().ledger().categories(0).category(), wire::PRODUCTIVE);
  EXPECT_NEAR(cluster.Job().ledger().categories(0).rank_seconds() - productive, 4 * 0.3, 1e-9)
      << "the open step only";
}

TEST(Controller, IgnoresEventsOfAnOlderLifeOfAnAgent) {
  Cluster cluster = Running();
  cluster.Join("node-2", 2);
  const uint64_t epoch = cluster.Job().epoch();
  cluster.incarnation["node-2"] = 1;
  cluster.Exit("node-2", 3, -1, SIGKILL);
  EXPECT_EQ(cluster.Job().epoch(), epoch);
}

TEST(Controller, StopsAJobAndWaitsForItsWorkers) {
  Cluster cluster = Running();
  cluster.Steps(1, 3);
  wire::Event stop;
  stop.mutable_job_stop_requested()->set_job_id("gpt-1");
  stop.mutable_job_stop_requested()->set_reason("enough");
  cluster.Feed(stop);
  EXPECT_EQ(cluster.Job().state(), wire::STOPPING);
  for (const char* node : {"node-1", "node-2"}) {
    wire::EpochClosed closed;
    closed.set_job_id("gpt-1");
    closed.set_epoch(1);
    cluster.Report(node, &wire::Event::mutable_epoch_closed, closed);
  }
  EXPECT_EQ(cluster.Job().state(), wire::STOPPED);
  EXPECT_EQ(cluster.Job().reason(), "enough");
}

TEST(Controller, StopsAtOnceWhenTheNodeItWaitsForIsLost) {
  Cluster cluster = Running();
  cluster.Steps(1, 3);
  cluster.Disconnect("node-2");
  wire::Event stop;
  stop.mutable_job_stop_requested()->set_job_id("gpt-1");
  cluster.Feed(stop);
  wire::EpochClosed closed;
  closed.set_job_id("gpt-1");
  closed.set_epoch(1);
  cluster.Report("node-1", &wire::Event::mutable_epoch_closed, closed);
  EXPECT_EQ(cluster.Job().state(), wire::STOPPING);
  cluster.Join("node-2", 2);
  EXPECT_EQ(cluster.Job().state(), wire::STOPPED);
}

TEST(Controller, StopsAtOnceWhenTheEpochHadClosedBefore) {
  Cluster cluster = Running();
  cluster.Steps(1, 3);
  cluster.Exit("node-1", 0, 1, 0);  // an error: what is behind it is waited for
  EXPECT_EQ(cluster.Job().state(), wire::RECOVERING);
  for (const char* node : {"node-1", "node-2"}) {
    wire::EpochClosed closed;
    closed.set_job_id("gpt-1");
    closed.set_epoch(1);
    cluster.Report(node, &wire::Event::mutable_epoch_closed, closed);
  }
  wire::Event stop;
  stop.mutable_job_stop_requested()->set_job_id("gpt-1");
  cluster.Feed(stop);
  EXPECT_EQ(cluster.Job().state(), wire::STOPPED);
}

TEST(Controller, InjectsEachPlannedFaultOnceAndNamesIt) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Join("node-2");
  wire::Job job = TwoByTwo();
  auto* fault = job.add_faults();
  fault->set_kind(wire::PlannedFault::KILL_WORKER);
  fault->set_target(3);
  fault->set_step(2);
  cluster.Submit(job);
  cluster.Start();
  cluster.Steps(1, 2);
  EXPECT_EQ(cluster.Last("node-2", wire::Command::kInjectFault).inject_fault().fault().target(),
            3u);
  cluster.Exit("node-2", 3, -1, SIGKILL);
  EXPECT_TRUE(cluster.Job().faults(0).injected());
  const size_t sent = cluster.sent.size();
  cluster.Start();
  cluster.Steps(1, 2);
  for (size_t i = sent; i < cluster.sent.size(); ++i) {
    EXPECT_FALSE(cluster.sent[i].second.has_inject_fault());
  }
}

TEST(Controller, AReplayOfItsLogGivesTheSameState) {
  Cluster cluster = Running();
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  cluster.Exit("node-1", 1, -1, SIGKILL);
  cluster.Start();
  cluster.Steps(11, 15);
  Controller replayed({});
  for (const auto& [now, event] : cluster.log) (void)replayed.Step(event, now);
  EXPECT_EQ(replayed.StateHash(), cluster.controller.StateHash());
  cluster.Step(16);
  EXPECT_NE(replayed.StateHash(), cluster.controller.StateHash());
}

TEST(Controller, ARestartedOneSaysAgainWhatShouldRun) {
  Cluster cluster = Running();
  cluster.Steps(1, 3);
  wire::Event started;
  started.mutable_controller_started();
  cluster.Feed(started);
  const size_t sent = cluster.sent.size();
  cluster.Join("node-1", 1);
  cluster.Join("node-2", 1);
  EXPECT_EQ(cluster.Job().epoch(), 1u);
  ASSERT_GT(cluster.sent.size(), sent);
  EXPECT_EQ(cluster.sent.back().second.start_workers().epoch(), 1u);
  cluster.Steps(4, 5);
  EXPECT_EQ(cluster.Job().step(), 5u);
}

TEST(Controller, RefusesASecondLiveJobInOneRunDirectory) {
  Cluster cluster = Running();
  wire::Job job = TwoByTwo();
  EXPECT_EQ(cluster.controller.CheckSubmission(job).code(), Code::kAlreadyExists);
  job.set_id("other");
  job.set_nodes(0);
  EXPECT_EQ(cluster.controller.CheckSubmission(job).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace longhaul::runtime
