// The snapshots of a node's ranks: which ones are in memory, and which one is written to disk,
// copied to the peer, and committed.
#pragma once

#include <optional>
#include <string>

#include "runtime/agent/agent_context.h"

namespace longhaul::runtime::agent {

class WorkerProcesses;

// Lists the newest snapshots of the job's ranks that are in this node's memory. A controller that
// has given the node up meanwhile does not count them any more.
void AddOwnSnapshots(const JobId& id, const AgentJob& job, proto::AgentJoined& joined);

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
  void Take(const CopyReceived& fact);

  // The workers of `start` continue from a snapshot that an earlier agent left in memory. From now
  // on this agent persists and copies it.
  void TakeHeld(const JobId& id, AgentJob& job, const proto::StartWorkers& start);
  // All local ranks have sealed the snapshot.
  void NoteSealed(AgentJob& job, const SnapshotId& snapshot, const StartOrder& start);
  // Starts to write the wanted snapshot to disk, and to copy the newest one to the peer, unless one
  // is under way.
  void MaybePersist(const JobId& id, AgentJob& job);
  void MaybeCopy(const JobId& id, AgentJob& job);

 private:
  static void NoteWrite(AgentJob& job, const SnapshotId& snapshot, DiskWrite write);
  // Returns the snapshot to write to disk now.
  std::optional<SnapshotId> Wanted(const AgentJob& job) const;
  void MaybeCommitAlone(const JobId& id, AgentJob& job, const PiecesPersisted& persisted);
  void ReportUnsaved(const JobId& id, const SnapshotId& snapshot, const std::string& reason,
                     bool overtaken);

  AgentContext& context_;
  WorkerProcesses& processes_;
};

}  // namespace longhaul::runtime::agent
