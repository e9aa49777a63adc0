// Coordinates the snapshots of jobs in memory: seals, copies in the memories of peers, snapshots
// that a new agent has adopted, and copies that do not verify.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class CheckpointHandler;
class FaultHandler;
class JobCloser;
class Placement;

class SnapshotHandler {
 public:
  SnapshotHandler(ControllerContext& context, CheckpointHandler& checkpoints, FaultHandler& faults,
                  JobCloser& closer, Placement& placement)
      : context_(context),
        checkpoints_(checkpoints),
        faults_(faults),
        closer_(closer),
        placement_(placement) {}

  void OnSnapshotSealed(const proto::Event& event);
  void OnCopyReceived(const proto::Event& event);
  void OnSnapshotReplicated(const proto::Event& event);
  void OnSnapshotFailed(const proto::Event& event);
  // The agent has listed the snapshots in the node's memory. `life_before`: it is a new one, which
  // has adopted the memory of this earlier life. Those of the present state of a job with a place
  // on the node can be restored from.
  void TakeMemory(const NodeId& node, std::optional<uint64_t> life_before);

 private:
  void Complete(JobRecord& job, uint64_t step, Seconds blocked, uint64_t bytes);
  void UpdateInterval(JobRecord& job);
  void SaveFailed(JobRecord& job, size_t place, const proto::SnapshotFailed& failed);
  void RestoreFailed(JobRecord& job, size_t place, const proto::SnapshotFailed& failed, Instant at);

  ControllerContext& context_;
  CheckpointHandler& checkpoints_;
  FaultHandler& faults_;
  JobCloser& closer_;
  Placement& placement_;
};

}  // namespace longhaul::runtime::controller
