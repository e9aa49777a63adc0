// A controller, agents that a test drives by hand, and a job of two workers on each of two nodes.
// For tests that feed each event themselves.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/controller/controller.h"

namespace longhaul::runtime::controller_testing {

inline constexpr uint64_t kBatch = 32;

inline proto::Job TwoByTwo() {
  proto::Job job;
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

// A controller with agents that a test drives by hand: each method is one event of one of them.
class Cluster {
 public:
  explicit Cluster(const ControllerOptions& options = {}) : controller(options) {
    proto::Event event;
    event.mutable_controller_started();
    Feed(event);
  }

  Actions Feed(proto::Event event, bool from_agent = false, const std::string& node = "") {
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
    checks.insert(checks.end(), actions.checks.begin(), actions.checks.end());
    return actions;
  }

  void Join(const std::string& node, uint64_t life = 1) {
    incarnation[node] = life;
    if (life > 1) sequence[node] = 0;
    proto::Event event;
    event.mutable_agent_joined()->set_slots(2);
    event.mutable_agent_joined()->set_address("127.0.0.1");
    event.mutable_agent_joined()->set_peer_port(peer_port);
    event.mutable_agent_joined()->set_host(host);
    Feed(event, true, node);
  }
  void Disconnect(const std::string& node) {
    proto::Event event;
    event.set_node(node);
    event.set_incarnation(incarnation[node]);
    event.set_at_ns(ToNanoseconds(now));
    event.mutable_agent_disconnected()->set_reason("reset");
    Feed(event);
  }
  void Submit(const proto::Job& job) {
    proto::Event event;
    *event.mutable_job_submitted()->mutable_job() = job;
    Feed(event);
  }
  template <typename Message>
  void Report(const std::string& node, Message* (proto::Event::*field)(), Message message) {
    proto::Event event;
    *(event.*field)() = std::move(message);
    Feed(event, true, node);
  }

  // Reports all answers of the nodes up to the first step of the job's present attempt.
  void Start() {
    const uint64_t attempt = Job().attempt();
    proto::StoreOpened opened;
    opened.set_job_id("gpt-1");
    opened.set_attempt(attempt);
    opened.set_port(4000);
    Report(gang[0], &proto::Event::mutable_store_opened, opened);
    for (const std::string& node : gang) {
      proto::WorkersStarted started;
      started.set_job_id("gpt-1");
      started.set_attempt(attempt);
      Report(node, &proto::Event::mutable_workers_started, started);
    }
    for (const auto phase : {proto::PhaseEntered::RENDEZVOUS, proto::PhaseEntered::RESTORE,
                             proto::PhaseEntered::STEPPING}) {
      now += std::chrono::milliseconds(10);
      for (const std::string& node : gang) {
        proto::PhaseEntered entered;
        entered.set_job_id("gpt-1");
        entered.set_attempt(attempt);
        entered.set_phase(phase);
        Report(node, &proto::Event::mutable_phase_entered, entered);
      }
    }
  }
  // Reports a step of 100 ms on both nodes.
  void Step(uint64_t step) {
    now += std::chrono::milliseconds(100);
    for (const std::string& node : gang) {
      proto::StepReported report;
      report.set_job_id("gpt-1");
      report.set_attempt(Job().attempt());
      report.set_first_step(step);
      report.set_last_step(step);
      report.set_has_loss(node == gang[0]);
      report.set_loss(5.0);
      Report(node, &proto::Event::mutable_step_reported, report);
    }
  }
  void Steps(uint64_t first, uint64_t last) {
    for (uint64_t step = first; step <= last; ++step) Step(step);
  }
  void Seal(const std::string& node, uint64_t step) {
    proto::SnapshotSealed sealed;
    sealed.set_job_id("gpt-1");
    sealed.set_attempt(Job().attempt());
    sealed.set_step(step);
    sealed.set_blocked_ns(1'000'000);
    Report(node, &proto::Event::mutable_snapshot_sealed, sealed);
  }
  void SealAll(uint64_t step) {
    for (const std::string& node : gang) Seal(node, step);
  }
  // Rank 0's piece reaches the disk and is committed.
  void Save(uint64_t step) {
    proto::SnapshotPersisted persisted;
    persisted.set_job_id("gpt-1");
    persisted.set_attempt(Job().attempt());
    persisted.set_step(step);
    persisted.add_files()->set_name("rank-0");
    Report("node-1", &proto::Event::mutable_snapshot_persisted, persisted);
    proto::SnapshotCommitted committed;
    committed.set_job_id("gpt-1");
    committed.set_attempt(Job().attempt());
    committed.set_step(step);
    Report("node-1", &proto::Event::mutable_snapshot_committed, committed);
  }
  void Exit(const std::string& node, uint32_t rank, int exit_code, int signal,
            uint64_t attempt = 0) {
    proto::WorkerExited exited;
    exited.set_job_id("gpt-1");
    exited.set_attempt(attempt == 0 ? Job().attempt() : attempt);
    exited.set_rank(rank);
    exited.set_exit_code(exit_code);
    exited.set_signal(signal);
    Report(node, &proto::Event::mutable_worker_exited, exited);
  }
  void TickAt(Instant at) {
    now = at;
    proto::Event event;
    event.mutable_tick();
    Feed(event);
  }
  // Runs every deadline up to `until`.
  void TickUntil(Instant until) {
    while (controller.NextDeadline().has_value() && *controller.NextDeadline() <= until) {
      TickAt(*controller.NextDeadline());
    }
    now = until;
  }

  proto::JobStatus Job() const { return *controller.JobStatus(JobId("gpt-1"), now); }
  // Returns the last command of a kind to a node; fails the test when there is none.
  proto::Command Last(const std::string& node, proto::Command::KindCase kind) const {
    for (auto entry = sent.rbegin(); entry != sent.rend(); ++entry) {
      if (entry->first == node && entry->second.kind_case() == kind) return entry->second;
    }
    ADD_FAILURE() << "no such command to " << node;
    return {};
  }

  // A copy of the node's snapshot is sealed in the holder's memory.
  void Copy(const std::string& node, uint64_t step, const std::string& holder) {
    proto::CopyReceived received;
    received.set_job_id("gpt-1");
    received.set_attempt(Job().attempt());
    received.set_step(step);
    received.set_first_rank(node == "node-1" ? 0 : 2);
    received.set_ranks(2);
    Report(holder, &proto::Event::mutable_copy_received, received);
  }
  void CopyFails(const std::string& node, uint64_t step) {
    proto::SnapshotFailed failed;
    failed.set_job_id("gpt-1");
    failed.set_attempt(Job().attempt());
    failed.set_step(step);
    failed.set_while_restoring(true);
    failed.set_tier(proto::Restore::TIER_PEER);
    failed.set_reason("the hash differs");
    Report(node, &proto::Event::mutable_snapshot_failed, failed);
  }
  proto::Restore RestoreOf(const std::string& node) const {
    return Last(node, proto::Command::kStartWorkers).start_workers().restore();
  }

  Controller controller;
  uint32_t peer_port = 0;                                // of agents that join
  std::string host;                                      // of agents that join; empty: unknown
  std::vector<std::string> gang = {"node-1", "node-2"};  // the nodes whose workers report
  Instant now = InstantFromNanoseconds(1'000'000'000'000);
  std::map<std::string, uint64_t> incarnation;
  std::map<std::string, uint64_t> sequence;
  std::vector<NodeCheckOrder> checks;  // that were ordered
  std::vector<std::pair<std::string, proto::Command>> sent;
  std::vector<std::pair<Instant, proto::Event>> log;
};

// A cluster with the job, whose workers run.
inline Cluster Running(const ControllerOptions& options = {}) {
  Cluster cluster(options);
  cluster.Join("node-1");
  cluster.Join("node-2");
  cluster.Submit(TwoByTwo());
  cluster.Start();
  return cluster;
}

}  // namespace longhaul::runtime::controller_testing
