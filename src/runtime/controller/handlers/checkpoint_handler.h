// Coordinates the checkpoints of jobs: which step the nodes write, the grant of its commit, and
// the copies on the second tier.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class JobCloser;
class Placement;

class CheckpointHandler {
 public:
  CheckpointHandler(ControllerContext& context, JobCloser& closer, Placement& placement)
      : context_(context), closer_(closer), placement_(placement) {}

  void OnSnapshotPersisted(const proto::Event& event);
  void OnSnapshotCommitted(const proto::Event& event);
  void OnSnapshotCopied(const proto::Event& event);
  void OnCheckpointsLost(const proto::Event& event);
  // Commits what was held back until the steps after it were good.
  void CommitProven(JobRecord& job);
  // The node could not write the step of the order.
  void WriteFailed(JobRecord& job, const proto::SnapshotFailed& failed, const NodeId& node);
  void CopyFailed(JobRecord& job, const proto::SnapshotFailed& failed);

  // Orders the newest complete step, unless one is being written.
  void OrderWrite(JobRecord& job);
  // No newer step will follow. If the newest could not be written, it is ordered once more: the
  // reason may have passed.
  void RetryFailed(JobRecord& job);
  // Returns whether the newest step, which is not on disk yet, can still get there. It cannot once
  // a node has failed to write it, or has no more of it in memory: one that went on for some steps
  // more than the others.
  bool CanBeSaved(JobRecord& job);
  void SendOrder(const JobRecord& job, const NodeId& node);
  // Sends the order to the nodes that have not written their part.
  void SendOrderAgain(const JobRecord& job);
  // A node has reconnected: sends its orders for checkpoints of the job once more.
  void SendAgain(JobRecord& job, const NodeId& node);
  // The node is lost, and its pending writes and copies with it.
  void DropNode(JobRecord& job, const NodeId& node);
  // Returns whether no copy to the second tier is pending before the job closes.
  bool CopiesSettled(JobRecord& job);
  // The checkpoint to start from has been fetched to disk.
  void NoteFetched(JobRecord& job);

 private:
  AttemptShape ShapeOf(const JobRecord& job, uint64_t attempt) const;
  void GrantIfWhole(JobRecord& job, uint64_t step);
  bool IsUnproven(const JobRecord& job, uint64_t step) const;
  void Advance(JobRecord& job);
  void OrderCopy(JobRecord& job);  // of the newest commit, when a copy is due
  void SendCopy(const JobRecord& job);

  ControllerContext& context_;
  JobCloser& closer_;
  Placement& placement_;
};

}  // namespace longhaul::runtime::controller
