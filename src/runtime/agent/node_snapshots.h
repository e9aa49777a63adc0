// The snapshots of a node's ranks: which are in its memory, which one is written to disk, copied to
// the peer, and committed.
#pragma once

#include <optional>
#include <string>

#include "runtime/agent/agent_context.h"

namespace longhaul::runtime::agent {

class WorkerProcesses;

class NodeSnapshots {
 public:
  NodeSnapshots(AgentContext& context, WorkerProcesses& processes)
      : context_(context), processes_(processes) {}

  void PersistOne(const proto::PersistSnapshot& command);
  void Commit(const proto::CommitSnapshot& command);
  void Take(const PiecesPersisted& fact);
  void Take(const ManifestWritten& fact);
  void Take(const CheckpointsMissing& fact);
  void Take(const CopiesSent& fact);

  // The workers of `start` continue from what an earlier agent left: it is theirs to persist and
  // send.
  void TakeHeld(const JobId& id, AgentJob& job, const proto::StartWorkers& start);
  // All local ranks have sealed the snapshot.
  void NoteSealed(AgentJob& job, const SnapshotId& snapshot, const StartOrder& start);
  // Begins to write the snapshot that is to be on disk next, or to copy the newest one to the peer,
  // unless one is under way.
  void MaybePersist(const JobId& id, AgentJob& job);
  void MaybeCopy(const JobId& id, AgentJob& job);

 private:
  static void NoteWrite(AgentJob& job, const SnapshotId& snapshot, DiskWrite write);
  // What is to be written to disk now.
  std::optional<SnapshotId> Wanted(const AgentJob& job) const;
  void MaybeCommitAlone(const JobId& id, AgentJob& job, const PiecesPersisted& persisted);
  void TellUnsaved(const JobId& id, const SnapshotId& snapshot, const std::string& reason,
                   bool overtaken);

  AgentContext& context_;
  WorkerProcesses& processes_;
};

}  // namespace longhaul::runtime::agent
