// The members of AgentCore, whose definitions are cut by concept: agent_commands.cc,
// agent_reports.cc, agent_snapshots.cc and tiers/agent_copies.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/agent_core.h"
#include "runtime/internal/agent_job.h"
#include "runtime/outbox.h"

namespace longhaul::runtime {

class AgentCore::State {
 public:
  State(NodeId node, uint64_t incarnation, AgentFacts facts)
      : node_(std::move(node)), incarnation_(incarnation), facts_(std::move(facts)) {}

  std::vector<AgentEffect> Step(const AgentInput& input, Instant now) {
    now_ = std::max(now_, now);
    RunTimers();
    std::visit([this](const auto& fact) { Take(fact); }, input);
    if (connected_) SendUnsent();
    return std::exchange(effects_, {});
  }

  std::optional<Instant> NextDeadline() const;
  bool Idle() const;
  bool Settled() const;
  Status CheckInvariants() const;

 private:
  // The link.
  void Take(const Connected& fact);
  void Take(const Disconnected&) { connected_ = false; }
  void Take(const EventsAcknowledged& fact) { outbox_.Acknowledge(fact.sequence); }
  void Take(const CommandReceived& fact);

  // Commands.
  void OpenStore(const wire::OpenStore& command);
  void StartWorkers(const wire::StartWorkers& command);
  void KillWorkers(const wire::KillWorkers& command);
  void SetInterval(const wire::SetSnapshotInterval& command);
  void Commit(const wire::CommitSnapshot& command);
  void PersistOne(const wire::PersistSnapshot& command);
  void CopyOutOne(const wire::CopyCheckpoint& command);
  void Probe(const wire::ProbeWorkers& command);
  void Forget(const wire::ForgetJob& command);
  void Inject(const wire::InjectFault& command);

  // Processes.
  void Take(const StoreListening& fact);
  void Take(const WorkerForked& fact);
  void Take(const WorkerGone& fact);
  void Take(const ProbedWorkers& fact);
  void Take(const TimerFired&) {}
  void Take(const ShutDownAsked& fact);

  // What workers say.
  void Take(const WorkerPhase& fact);
  void Take(const WorkerStep& fact);
  void Take(const WorkerSealed& fact);
  void Take(const WorkerWaitsForSlot& fact);
  void Take(const WorkerRestored& fact);
  void Take(const WorkerRestoreFailed& fact);
  void Take(const WorkerResultText& fact);
  void Take(const JobReport& fact);

  // Disk.
  void Take(const PiecesPersisted& fact);
  void Take(const ManifestWritten& fact);
  void Take(const CopiesSent& fact);
  void Take(const CheckpointCopied& fact);
  void Take(const CheckpointFetched& fact);

  void RunTimers();
  void Spawn(const JobId& id, internal::AgentJob& job, const StartOrder& start);
  void SignalOne(const JobId& id, uint64_t epoch, uint32_t rank, int signal);
  void KillNow(const JobId& id, internal::Epoch& epoch);
  void Terminate(const JobId& id, internal::Epoch& epoch, Duration grace);
  void TellFailedStart(const std::string& job, uint64_t epoch, const std::string& reason,
                       bool permanent);
  void AfterEnd(const JobId& id, uint64_t epoch);
  // The workers of `start` go on from what an earlier agent left: it is theirs to persist and send.
  void TakeHeld(const JobId& id, internal::AgentJob& job, const wire::StartWorkers& start);
  void NoteSealed(internal::AgentJob& job, const internal::SnapshotId& snapshot,
                  const StartOrder& start);
  // What is to be written to disk now.
  std::optional<internal::SnapshotId> Wanted(const internal::AgentJob& job) const;
  void MaybePersist(const JobId& id, internal::AgentJob& job);
  void TellUnsaved(const JobId& id, const internal::SnapshotId& snapshot, const std::string& reason,
                   bool overtaken);
  void TellUncopied(const JobId& id, const internal::SnapshotId& snapshot,
                    const std::string& reason, bool while_restoring);
  void MaybeCopy(const JobId& id, internal::AgentJob& job);
  void MaybeDrop(const JobId& id);

  // Whether commands of this epoch of the job come too late.
  bool IsForgotten(const JobId& id, uint64_t epoch) const {
    return std::any_of(forgotten_.begin(), forgotten_.end(), [&](const auto& forgotten) {
      return forgotten.first == id && epoch <= forgotten.second;
    });
  }
  internal::AgentJob* FindJob(const JobId& id) {
    const auto found = jobs_.find(id);
    return found == jobs_.end() ? nullptr : &found->second;
  }
  // Null when there is no such worker.
  internal::Epoch* FindEpoch(const WorkerId& worker);
  // The epoch of a worker that may still speak: not overtaken by a higher one.
  internal::Epoch* FindSpeaking(const WorkerId& worker);

  void Tell(wire::Event event) { TellAt(std::move(event), now_); }
  void TellAt(wire::Event event, Instant at);
  void SendUnsent();
  wire::AgentJoined Present() const;

  NodeId node_;
  uint64_t incarnation_;
  AgentFacts facts_;
  Instant now_{};
  bool connected_ = false;
  bool shutting_down_ = false;
  std::map<JobId, internal::AgentJob> jobs_;
  std::deque<std::pair<JobId, uint64_t>> forgotten_;  // up to an epoch
  std::vector<internal::Resume> resumes_;
  Outbox outbox_;
  std::vector<AgentEffect> effects_;
};

}  // namespace longhaul::runtime
