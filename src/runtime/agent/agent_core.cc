#include "runtime/agent/agent_core.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "runtime/agent/agent_context.h"
#include "runtime/agent/node_snapshots.h"
#include "runtime/agent/second_tier.h"
#include "runtime/agent/worker_control.h"
#include "runtime/agent/worker_processes.h"
#include "runtime/agent/worker_reports.h"

namespace longhaul::runtime {

using agent::AgentJob;
using agent::Worker;

// The context and the classes over it, which only store references to each other. Each fact is
// taken by the class that it concerns.
class AgentCore::Parts {
 public:
  Parts(NodeId node, uint64_t incarnation, AgentFacts facts)
      : context(std::move(node), incarnation, std::move(facts)),
        processes_(context, snapshots_),
        snapshots_(context, processes_),
        control_(context, processes_),
        reports_(context, snapshots_),
        second_tier_(context) {}
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  std::vector<AgentEffect> Step(const AgentInput& input, Instant now);
  std::optional<Instant> NextDeadline() const;
  bool Idle() const;
  bool Settled() const;
  Status CheckInvariants() const;

  agent::AgentContext context;

 private:
  // The link.
  void Take(const Connected& fact);
  void Take(const Disconnected&) { context.connected = false; }
  void Take(const EventsAcknowledged& fact) { context.outbox.Acknowledge(fact.sequence); }
  void Take(const CommandReceived& fact);
  void Take(const TimerFired&) {}
  // A worker that a planned fault has stopped is not reported.
  void Take(const WorkerQuiet& fact) {
    if (!control_.HasStopped(fact.worker)) reports_.Take(fact);
  }
  // A stop that was planned is no sign of a fault.
  void Take(WorkerGone fact) {
    fact.was_stopped = fact.was_stopped && !control_.HasStopped(fact.worker);
    processes_.Take(fact);
  }
  // All other facts.
  template <typename Fact>
  void Take(const Fact& fact);

  void SendUnsent();
  proto::AgentJoined Present() const;

  agent::WorkerProcesses processes_;
  agent::NodeSnapshots snapshots_;
  agent::WorkerControl control_;
  agent::WorkerReports reports_;
  agent::SecondTier second_tier_;
};

namespace {

template <typename Part, typename Fact>
concept Takes = requires(Part& part, const Fact& fact) {
  part.Take(fact);
};

}  // namespace

template <typename Fact>
void AgentCore::Parts::Take(const Fact& fact) {
  if constexpr (Takes<agent::WorkerProcesses, Fact>) {
    processes_.Take(fact);
  } else if constexpr (Takes<agent::NodeSnapshots, Fact>) {
    snapshots_.Take(fact);
  } else if constexpr (Takes<agent::WorkerControl, Fact>) {
    control_.Take(fact);
  } else if constexpr (Takes<agent::WorkerReports, Fact>) {
    reports_.Take(fact);
  } else {
    second_tier_.Take(fact);
  }
}

std::vector<AgentEffect> AgentCore::Parts::Step(const AgentInput& input, Instant now) {
  context.now = std::max(context.now, now);
  // Timers run before the fact, so that a fact which is late by the clock meets the state after the
  // deadline.
  processes_.RunTimers();
  control_.RunTimers();
  std::visit([this](const auto& fact) { Take(fact); }, input);
  if (context.connected) SendUnsent();
  return std::exchange(context.effects, {});
}

// Called last, so that the events of a step follow its other effects.
void AgentCore::Parts::SendUnsent() {
  for (proto::Event& event : context.outbox.TakeUnsent()) {
    Send send;
    *send.message.mutable_event() = std::move(event);
    context.effects.push_back(std::move(send));
  }
}

void AgentCore::Parts::Take(const Connected& fact) {
  context.connected = true;
  // The controller reports what it has taken from this life of the agent. The rest is sent again,
  // because a broken connection may have lost any of it. AgentJoined is added behind it.
  context.outbox.Acknowledge(fact.acknowledged);
  context.outbox.ForgetSent();
  proto::Event event;
  *event.mutable_agent_joined() = Present();
  context.Report(std::move(event));
}

proto::AgentJoined AgentCore::Parts::Present() const {
  proto::AgentJoined joined;
  joined.set_slots(context.facts.slots);
  joined.set_address(context.facts.address);
  joined.set_host(context.facts.host);
  joined.set_cores(context.facts.cores);
  joined.set_memory_bytes(context.facts.memory_bytes);
  joined.set_peer_port(context.facts.peer_port);
  for (const AgentFacts::HeldSnapshot& snapshot : context.facts.held) {
    // The job has been started by this agent since, so its snapshots are those of AgentJob.
    if (context.jobs.contains(snapshot.job)) continue;
    proto::AgentJoined::HeldSnapshot& held = *joined.add_held();
    held.set_job_id(snapshot.job.value());
    held.set_rank(snapshot.rank);
    held.set_step(snapshot.step);
    held.set_attempt(snapshot.attempt);
  }
  for (const auto& [id, job] : context.jobs) agent::AddOwnSnapshots(id, job, joined);
  context.copies.AddTo(joined);
  for (const auto& [id, job] : context.jobs) {
    for (const auto& [number, attempt] : job.attempts) {
      if (!attempt.alive()) continue;
      proto::AgentJoined::RunningAttempt& running = *joined.add_running();
      running.set_job_id(id.value());
      running.set_attempt(number);
      for (const auto& [rank, worker] : attempt.workers) {
        if (worker.state != Worker::State::kGone) running.add_ranks(rank);
      }
    }
    if (job.waiting == nullptr) continue;
    // As good as running: it starts without another command.
    proto::AgentJoined::RunningAttempt& running = *joined.add_running();
    running.set_job_id(id.value());
    running.set_attempt(job.waiting->attempt());
    for (uint32_t i = 0; i < job.waiting->local_ranks(); ++i) {
      running.add_ranks(job.waiting->first_rank() + i);
    }
  }
  return joined;
}

void AgentCore::Parts::Take(const CommandReceived& fact) {
  const proto::Command& command = fact.command;
  switch (command.kind_case()) {
    case proto::Command::kOpenStore:
      return processes_.OpenStore(command.open_store());
    case proto::Command::kStartWorkers:
      return processes_.StartWorkers(command.start_workers());
    case proto::Command::kKillWorkers:
      return processes_.KillWorkers(command.kill_workers());
    case proto::Command::kSetSnapshotInterval:
      return control_.SetInterval(command.set_snapshot_interval());
    case proto::Command::kCommitSnapshot:
      return snapshots_.Commit(command.commit_snapshot());
    case proto::Command::kProbeWorkers:
      return control_.Probe(command.probe_workers());
    case proto::Command::kSampleWorkers:
      return control_.Sample(command.sample_workers());
    case proto::Command::kForgetJob:
      return processes_.Forget(command.forget_job());
    case proto::Command::kPrepareJobs:
      return processes_.Prepare(command.prepare_jobs());
    case proto::Command::kInjectFault:
      return control_.Inject(command.inject_fault());
    case proto::Command::kPersistSnapshot:
      return snapshots_.PersistOne(command.persist_snapshot());
    case proto::Command::kCopyCheckpoint:
      return second_tier_.CopyOutOne(command.copy_checkpoint());
    case proto::Command::KIND_NOT_SET:
      return;  // a newer controller's: nothing we can do
  }
}

std::optional<Instant> AgentCore::Parts::NextDeadline() const {
  std::optional<Instant> next;
  const auto consider = [&next](Instant at) {
    if (!next.has_value() || at < *next) next = at;
  };
  for (const auto& [id, job] : context.jobs) {
    for (const auto& [number, attempt] : job.attempts) {
      if (attempt.kill_at.has_value()) consider(*attempt.kill_at);
    }
    for (const auto& [local, kept] : job.kept) consider(kept.until);
  }
  if (const auto at = control_.NextDeadline()) consider(*at);
  return next;
}

// Idle: no worker and no write under way. Settled also requires that the controller has everything,
// and that what is on disk is committed.
bool AgentCore::Parts::Idle() const {
  return std::all_of(context.jobs.begin(), context.jobs.end(), [](const auto& entry) {
    const AgentJob& job = entry.second;
    return !job.alive() && job.waiting == nullptr && !job.persisting.has_value() &&
           !job.committing.has_value();
  });
}

bool AgentCore::Parts::Settled() const {
  if (!Idle() || !context.outbox.empty()) return false;
  return std::all_of(context.jobs.begin(), context.jobs.end(), [](const auto& entry) {
    const AgentJob& job = entry.second;
    const bool commits_here = job.latest != nullptr && job.latest->first_rank() == 0;
    return !commits_here || !job.persisted.has_value() ||
           (job.committed.has_value() && *job.committed >= *job.persisted);
  });
}

Status AgentCore::Parts::CheckInvariants() const {
  RETURN_IF_ERROR(context.outbox.CheckInvariants());
  for (const auto& [id, job] : context.jobs) {
    const auto broken = [&id = id](const std::string& what) {
      return InternalError("job " + id.value() + ": " + what);
    };
    if (job.attempts.size() > 1) return broken("workers of two attempts");
    if (job.waiting != nullptr && !job.alive()) return broken("a start waits for nothing");
    for (const auto& [number, attempt] : job.attempts) {
      if (!attempt.alive()) return broken("an attempt without workers is kept");
      if (number > job.highest_attempt) return broken("an attempt above the highest one seen");
      if (job.waiting != nullptr && !attempt.doomed()) {
        return broken("a start waits for workers that nobody ends");
      }
      if (attempt.terminated && !attempt.kill_at.has_value()) {
        for (const auto& [rank, worker] : attempt.workers) {
          if (worker.state != Worker::State::kGone && !worker.killed) {
            return broken("a worker received SIGTERM and has no deadline for its end");
          }
        }
      }
    }
    if (job.persisting.has_value() && job.latest == nullptr) return broken("persists unknown work");
    if (job.forget && !job.alive() && !job.persisting.has_value() && !job.committing.has_value()) {
      return broken("forgotten, but kept");
    }
  }
  return Status();
}

AgentCore::AgentCore(NodeId node, uint64_t incarnation, AgentFacts facts)
    : parts_(std::make_unique<Parts>(std::move(node), incarnation, std::move(facts))) {}
AgentCore::~AgentCore() = default;
AgentCore::AgentCore(AgentCore&&) noexcept = default;
AgentCore& AgentCore::operator=(AgentCore&&) noexcept = default;

std::vector<AgentEffect> AgentCore::Step(const AgentInput& input, Instant now) {
  return parts_->Step(input, now);
}
std::optional<Instant> AgentCore::NextDeadline() const { return parts_->NextDeadline(); }
bool AgentCore::Idle() const { return parts_->Idle(); }
bool AgentCore::HasJobs() const { return !parts_->context.jobs.empty(); }
bool AgentCore::KeepsWorkers() const {
  const auto& jobs = parts_->context.jobs;
  return std::any_of(jobs.begin(), jobs.end(),
                     [](const auto& entry) { return !entry.second.kept.empty(); });
}

bool AgentCore::DisturbedByTests(const std::string& job) const {
  const auto& jobs = parts_->context.jobs;
  return std::any_of(jobs.begin(), jobs.end(), [&](const auto& entry) {
    const auto& [id, own] = entry;
    return id.value() != job || own.alive() || own.waiting != nullptr;
  });
}
bool AgentCore::Settled() const { return parts_->Settled(); }
Status AgentCore::CheckInvariants() const { return parts_->CheckInvariants(); }

}  // namespace longhaul::runtime
