#include "runtime/agent_core.h"

#include <algorithm>
#include <utility>

#include "runtime/internal/agent_state.h"

namespace longhaul::runtime {

using internal::Epoch;
using Job = internal::AgentJob;
using internal::SnapshotId;
using internal::Worker;

void AgentCore::State::TellAt(wire::Event event, Instant at) {
  if (event.at_ns() == 0) event.set_at_ns(ToNanoseconds(at));
  event.set_node(node_.value());
  event.set_incarnation(incarnation_);
  outbox_.Add(std::move(event));
}

void AgentCore::State::SendUnsent() {
  for (wire::Event& event : outbox_.TakeUnsent()) {
    Send send;
    *send.message.mutable_event() = std::move(event);
    effects_.push_back(std::move(send));
  }
}

void AgentCore::State::Take(const Connected& fact) {
  connected_ = true;
  outbox_.Acknowledge(fact.acknowledged);
  outbox_.ForgetSent();
  wire::Event event;
  *event.mutable_agent_joined() = Present();
  Tell(std::move(event));
}

wire::AgentJoined AgentCore::State::Present() const {
  wire::AgentJoined joined;
  joined.set_slots(facts_.slots);
  joined.set_address(facts_.address);
  joined.set_host(facts_.host);
  joined.set_cores(facts_.cores);
  joined.set_memory_bytes(facts_.memory_bytes);
  joined.set_peer_port(facts_.peer_port);
  for (const AgentFacts::HeldSnapshot& snapshot : facts_.held) {
    if (jobs_.contains(snapshot.job)) continue;
    wire::AgentJoined::HeldSnapshot& held = *joined.add_held();
    held.set_job_id(snapshot.job.value());
    held.set_rank(snapshot.rank);
    held.set_step(snapshot.step);
    held.set_epoch(snapshot.epoch);
    held.set_copy(snapshot.copy);
  }
  for (const auto& [id, job] : jobs_) {
    for (const auto& [number, epoch] : job.epochs) {
      if (!epoch.alive()) continue;
      wire::AgentJoined::RunningEpoch& running = *joined.add_running();
      running.set_job_id(id.value());
      running.set_epoch(number);
      for (const auto& [rank, worker] : epoch.workers) {
        if (worker.state != Worker::State::kGone) running.add_ranks(rank);
      }
    }
    if (job.waiting == nullptr) continue;
    // As good as running: it starts without another command.
    wire::AgentJoined::RunningEpoch& running = *joined.add_running();
    running.set_job_id(id.value());
    running.set_epoch(job.waiting->epoch());
    for (uint32_t i = 0; i < job.waiting->local_ranks(); ++i) {
      running.add_ranks(job.waiting->first_rank() + i);
    }
  }
  return joined;
}

void AgentCore::State::Take(const CommandReceived& fact) {
  const wire::Command& command = fact.command;
  switch (command.kind_case()) {
    case wire::Command::kOpenStore:
      return OpenStore(command.open_store());
    case wire::Command::kStartWorkers:
      return StartWorkers(command.start_workers());
    case wire::Command::kKillWorkers:
      return KillWorkers(command.kill_workers());
    case wire::Command::kSetSnapshotInterval:
      return SetInterval(command.set_snapshot_interval());
    case wire::Command::kCommitSnapshot:
      return Commit(command.commit_snapshot());
    case wire::Command::kProbeWorkers:
      return Probe(command.probe_workers());
    case wire::Command::kForgetJob:
      return Forget(command.forget_job());
    case wire::Command::kInjectFault:
      return Inject(command.inject_fault());
    case wire::Command::kPersistSnapshot:
      return PersistOne(command.persist_snapshot());
    case wire::Command::kCopyCheckpoint:
      return CopyOutOne(command.copy_checkpoint());
    case wire::Command::KIND_NOT_SET:
      return;  // a newer controller's: nothing we can do
  }
}

std::optional<Instant> AgentCore::State::NextDeadline() const {
  std::optional<Instant> next;
  const auto consider = [&next](Instant at) {
    if (!next.has_value() || at < *next) next = at;
  };
  for (const auto& [id, job] : jobs_) {
    for (const auto& [number, epoch] : job.epochs) {
      if (epoch.kill_at.has_value()) consider(*epoch.kill_at);
    }
  }
  for (const internal::Resume& entry : resumes_) consider(entry.at);
  return next;
}

bool AgentCore::State::Idle() const {
  return std::all_of(jobs_.begin(), jobs_.end(), [](const auto& entry) {
    const Job& job = entry.second;
    return !job.alive() && job.waiting == nullptr && !job.persisting.has_value() &&
           !job.committing.has_value();
  });
}

bool AgentCore::State::Settled() const {
  if (!Idle() || !outbox_.empty()) return false;
  return std::all_of(jobs_.begin(), jobs_.end(), [](const auto& entry) {
    const Job& job = entry.second;
    const bool commits_here = job.latest != nullptr && job.latest->first_rank() == 0;
    return !commits_here || !job.persisted.has_value() ||
           (job.committed.has_value() && *job.committed >= *job.persisted);
  });
}

Status AgentCore::State::CheckInvariants() const {
  RETURN_IF_ERROR(outbox_.CheckInvariants());
  for (const auto& [id, job] : jobs_) {
    const auto broken = [&id = id](const std::string& what) {
      return InternalError("job " + id.value() + ": " + what);
    };
    if (job.epochs.size() > 1) return broken("workers of two epochs");
    if (job.waiting != nullptr && !job.alive()) return broken("a start waits for nothing");
    for (const auto& [number, epoch] : job.epochs) {
      if (!epoch.alive()) return broken("an epoch without workers is kept");
      if (number > job.highest_epoch) return broken("an epoch above the highest one seen");
      if (job.waiting != nullptr && !epoch.doomed()) {
        return broken("a start waits for workers that nobody ends");
      }
      if (epoch.terminated && !epoch.kill_at.has_value()) {
        for (const auto& [rank, worker] : epoch.workers) {
          if (worker.state != Worker::State::kGone && !worker.killed) {
            return broken("a worker was told to end without a deadline");
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
    : state_(std::make_unique<State>(std::move(node), incarnation, std::move(facts))) {}
AgentCore::~AgentCore() = default;
AgentCore::AgentCore(AgentCore&&) noexcept = default;
AgentCore& AgentCore::operator=(AgentCore&&) noexcept = default;

std::vector<AgentEffect> AgentCore::Step(const AgentInput& input, Instant now) {
  return state_->Step(input, now);
}
std::optional<Instant> AgentCore::NextDeadline() const { return state_->NextDeadline(); }
bool AgentCore::Idle() const { return state_->Idle(); }
bool AgentCore::Settled() const { return state_->Settled(); }
Status AgentCore::CheckInvariants() const { return state_->CheckInvariants(); }

}  // namespace longhaul::runtime
