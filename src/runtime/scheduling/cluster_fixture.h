// A controller, and agents that carry out commands at once: for tests with several jobs.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/controller/controller.h"

namespace longhaul::runtime::scheduling_testing {

inline proto::Job Gang(const std::string& id, uint32_t nodes, uint32_t processes = 2) {
  proto::Job job;
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

// A controller and agents that carry out commands at once. After every event it checks all
// invariants, and that what the scheduler has placed is what runs.
class Cluster {
 public:
  explicit Cluster(const std::string& configuration = "", const std::string& cluster_file = "") {
    Started(configuration, cluster_file);
  }

  void Started(const std::string& configuration, const std::string& cluster_file = "") {
    proto::Event event;
    auto& file = *event.mutable_controller_started()->mutable_scheduling();
    file.set_text(configuration);
    file.set_cluster_text(cluster_file);
    Feed(event);
  }

  void Feed(const proto::Event& event) {
    log.emplace_back(now, event);
    Actions actions = controller.Step(event, now);
    ASSERT_TRUE(controller.CheckInvariants().ok()) << controller.CheckInvariants();
    ASSERT_TRUE(controller.CheckPlaces().ok()) << controller.CheckPlaces();
    for (const proto::Notification& notification : actions.notifications) {
      if (notification.has_message()) messages.push_back(notification.message().text());
    }
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

  void Join(const std::string& node, uint32_t slots = 2, uint64_t life = 1,
            const std::vector<proto::AgentJoined::HeldSnapshot>& held = {}) {
    if (incarnation_[node] != life) sequence_[node] = 0;
    incarnation_[node] = life;
    proto::Event event;
    event.mutable_agent_joined()->set_slots(slots);
    event.mutable_agent_joined()->set_address("127.0.0.1");
    event.mutable_agent_joined()->set_peer_port(peer_port);
    for (const auto& each : held) *event.mutable_agent_joined()->add_held() = each;
    Report(node, event);
  }
  void Lose(const std::string& node) {
    Disconnect(node);
    TickUntil(now + std::chrono::seconds(2));
  }
  // Breaks the node's connection and restores it.
  void Cut(const std::string& node, uint32_t slots = 2) {
    Disconnect(node);
    now += std::chrono::milliseconds(200);
    Join(node, slots, incarnation_[node]);
  }
  void Disconnect(const std::string& node) {
    proto::Event event;
    event.set_node(node);
    event.set_incarnation(incarnation_[node]);
    event.set_at_ns(ToNanoseconds(now));
    event.mutable_agent_disconnected()->set_reason("reset");
    Feed(event);
  }
  // SIGKILL ends the first worker of a job on a node.
  void Die(const std::string& id, const std::string& node) {
    const proto::JobStatus job = Job(id);
    uint32_t place = 0;
    while (job.gang(static_cast<int>(place)) != node) ++place;
    proto::Event event;
    auto& exited = *event.mutable_worker_exited();
    exited.set_job_id(id);
    exited.set_attempt(job.attempt());
    exited.set_rank(place * job.job().processes_per_node());
    exited.set_exit_code(-1);
    exited.set_signal(9);
    Report(node, event);
  }
  // Requests these changes, all at once.
  void Ask(const std::vector<proto::Change>& changes) {
    proto::Event event;
    for (const proto::Change& change : changes) {
      *event.mutable_changes_asked()->add_changes() = change;
    }
    ASSERT_TRUE(controller.CheckChanges(event.changes_asked()).ok())
        << controller.CheckChanges(event.changes_asked());
    Feed(event);
  }
  void Submit(const proto::Job& job) {
    proto::Event event;
    *event.mutable_job_submitted()->mutable_job() = job;
    Feed(event);
  }
  void Stop(const std::string& job) {
    proto::Event event;
    event.mutable_job_stop_requested()->set_job_id(job);
    Feed(event);
  }
  void Cordon(const std::string& node, bool cordoned, bool drain = false) {
    proto::Event event;
    event.mutable_node_cordoned()->set_target(node);
    event.mutable_node_cordoned()->set_cordoned(cordoned);
    event.mutable_node_cordoned()->set_drain(drain);
    Feed(event);
  }
  // One more step of a running job, with a snapshot after it where its nodes were ordered to take
  // one.
  void Step(const std::string& id) {
    now += std::chrono::milliseconds(100);
    const proto::JobStatus job = Job(id);
    const uint64_t step = job.step() + 1;
    for (const std::string& node : job.gang()) {
      proto::Event event;
      auto& report = *event.mutable_step_reported();
      report.set_job_id(id);
      report.set_attempt(job.attempt());
      report.set_first_step(step);
      report.set_last_step(step);
      report.set_has_loss(node == job.gang(0));
      Report(node, event);
    }
    if (!snapshots.contains(id)) return;
    for (const std::string& node : job.gang()) Seal(id, node, step);
  }
  void Seal(const std::string& id, const std::string& node, uint64_t step) {
    proto::Event event;
    auto& sealed = *event.mutable_snapshot_sealed();
    sealed.set_job_id(id);
    sealed.set_attempt(Job(id).attempt());
    sealed.set_step(step);
    sealed.set_blocked_ns(1'000'000);
    Report(node, event);
  }
  // A copy of the node's snapshot is in the holder's memory too.
  void Replicate(const std::string& id, const std::string& node, const std::string& holder,
                 uint64_t step) {
    const proto::StartWorkers start = LastStart(id, node);
    proto::Event event;
    auto& received = *event.mutable_copy_received();
    received.set_job_id(id);
    received.set_attempt(Job(id).attempt());
    received.set_step(step);
    received.set_first_rank(start.arena_first_rank());
    received.set_ranks(start.local_ranks());
    Report(holder, event);
  }
  // Reports a failure of the present attempt.
  void Fail(const std::string& id, const std::string& node, proto::SnapshotFailed failed) {
    failed.set_job_id(id);
    failed.set_attempt(Job(id).attempt());
    proto::Event event;
    *event.mutable_snapshot_failed() = failed;
    Report(node, event);
  }
  void Persist(const std::string& id, const std::string& node, uint64_t attempt, uint64_t step) {
    proto::Event event;
    auto& persisted = *event.mutable_snapshot_persisted();
    persisted.set_job_id(id);
    persisted.set_attempt(attempt);
    persisted.set_step(step);
    persisted.add_files()->set_name("rank-0");
    Report(node, event);
  }
  void TickUntil(Instant until) {
    while (controller.NextDeadline().has_value() && *controller.NextDeadline() <= until) {
      now = std::max(now, *controller.NextDeadline());
      proto::Event event;
      event.mutable_tick();
      Feed(event);
    }
    now = until;
  }

  proto::JobStatus Job(const std::string& id) const {
    return controller.JobStatus(JobId(id), now).value_or(proto::JobStatus());
  }
  proto::JobState StateOf(const std::string& id) const { return Job(id).state(); }
  std::vector<std::string> GangOf(const std::string& id) const {
    const proto::JobStatus job = Job(id);
    return {job.gang().begin(), job.gang().end()};
  }
  proto::NodeStatus Node(const std::string& name) const {
    for (const proto::NodeStatus& node : controller.AllNodes()) {
      if (node.name() == name) return node;
    }
    return {};
  }
  proto::StartWorkers LastStart(const std::string& id, const std::string& node) const {
    for (auto entry = sent.rbegin(); entry != sent.rend(); ++entry) {
      const auto& start = entry->second.start_workers();
      if (entry->first == node && entry->second.has_start_workers() && start.job_id() == id) {
        return start;
      }
    }
    ADD_FAILURE() << id << " was never started on " << node;
    return {};
  }

  // Options for tests in which time passes without steps.
  static ControllerOptions Patient() {
    ControllerOptions options;
    options.hang_floor = std::chrono::hours(24);
    return options;
  }

  Controller controller{Patient()};
  Instant now = InstantFromNanoseconds(1'000'000'000'000);
  std::vector<std::pair<std::string, proto::Command>> sent;
  std::vector<std::pair<Instant, proto::Event>> log;
  std::vector<std::string> messages;
  std::set<std::string> snapshots;  // jobs that take a snapshot after every step
  bool closes = true;               // killed workers end at once
  uint32_t peer_port = 0;           // of agents that join: the port for snapshots

 private:
  void Report(const std::string& node, proto::Event event) {
    event.set_node(node);
    event.set_incarnation(incarnation_[node]);
    event.set_sequence(++sequence_[node]);
    event.set_at_ns(ToNanoseconds(now));
    Feed(event);
  }

  void Answer(const std::string& node, const proto::Command& command) {
    proto::Event event;
    if (command.has_open_store()) {
      event.mutable_store_opened()->set_job_id(command.open_store().job_id());
      event.mutable_store_opened()->set_attempt(command.open_store().attempt());
      event.mutable_store_opened()->set_port(4000);
      Report(node, event);
    } else if (command.has_start_workers()) {
      const auto& start = command.start_workers();
      snapshots.erase(start.job_id());
      event.mutable_workers_started()->set_job_id(start.job_id());
      event.mutable_workers_started()->set_attempt(start.attempt());
      Report(node, event);
      for (const auto phase : {proto::PhaseEntered::RENDEZVOUS, proto::PhaseEntered::RESTORE,
                               proto::PhaseEntered::STEPPING}) {
        proto::Event entered;
        entered.mutable_phase_entered()->set_job_id(start.job_id());
        entered.mutable_phase_entered()->set_attempt(start.attempt());
        entered.mutable_phase_entered()->set_phase(phase);
        entered.mutable_phase_entered()->set_restored_step(start.restore().step());
        Report(node, entered);
      }
    } else if (command.has_kill_workers() && closes) {
      event.mutable_attempt_closed()->set_job_id(command.kill_workers().job_id());
      event.mutable_attempt_closed()->set_attempt(command.kill_workers().attempt());
      Report(node, event);
    } else if (command.has_set_snapshot_interval()) {
      if (command.set_snapshot_interval().steps() == 1) {
        snapshots.insert(command.set_snapshot_interval().job_id());
      }
    } else if (command.has_commit_snapshot()) {
      event.mutable_snapshot_committed()->set_job_id(command.commit_snapshot().job_id());
      event.mutable_snapshot_committed()->set_attempt(command.commit_snapshot().attempt());
      event.mutable_snapshot_committed()->set_step(command.commit_snapshot().step());
      Report(node, event);
    }
  }

  std::map<std::string, uint64_t> incarnation_;
  std::map<std::string, uint64_t> sequence_;
  std::deque<std::pair<std::string, proto::Command>> queue_;
  bool answering_ = false;
};

inline proto::Job WithPriority(proto::Job job, int32_t priority) {
  job.mutable_scheduling()->set_priority(priority);
  return job;
}

inline proto::Job InQueue(proto::Job job, const std::string& queue) {
  job.mutable_scheduling()->set_queue(queue);
  return job;
}

// Two queues, each with a guarantee of half of two nodes.
inline constexpr const char* kLabs = R"(
queues:
  - {name: red, guarantee: {accelerators: 2}}
  - {name: blue, guarantee: {accelerators: 2}}
default_queue: red
priorities: {high: 50}
)";

inline constexpr const char* kTwoNodes = R"(
levels: [leaf]
models: {H100: {memory: 80GiB}}
kinds: {host: {model: H100, devices: 2, cpu: 8, memory: 64GiB}}
nodes:
  - {name: node-1, kind: host, at: {leaf: l1}}
  - {name: node-2, kind: host, at: {leaf: l2}}
)";

}  // namespace longhaul::runtime::scheduling_testing
