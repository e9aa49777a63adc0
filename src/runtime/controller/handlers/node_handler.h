// Handles nodes that join, lose their connection, are lost, cordoned or drained, and their jobs.
#pragma once

#include <string>

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class AbsentNodes;
class CheckpointHandler;
class AttemptStarter;
class FaultHandler;
class JobCloser;
class Placement;
class SnapshotHandler;

class NodeHandler {
 public:
  NodeHandler(ControllerContext& context, CheckpointHandler& checkpoints, AttemptStarter& starter,
              FaultHandler& faults, JobCloser& closer, Placement& placement,
              SnapshotHandler& snapshots, AbsentNodes& absent)
      : context_(context),
        checkpoints_(checkpoints),
        starter_(starter),
        faults_(faults),
        closer_(closer),
        placement_(placement),
        snapshots_(snapshots),
        absent_(absent) {}

  void OnAgentJoined(const proto::Event& event);
  void OnAgentDisconnected(const proto::Event& event);
  void OnNodeCordoned(const proto::NodeCordoned& cordoned);
  // The agent did not reconnect within its grace period.
  void OnGraceOver(const NodeId& node);
  // The controller has started: every agent must connect again.
  void DisconnectAll();

 private:
  void LoseNode(const NodeId& id, const std::string& why, Instant happened);
  // Brings an agent that joined to the wanted state. Commands are idempotent, so commands for what
  // should run are sent again.
  void Reconcile(const NodeId& id);
  void ReconcileJob(JobRecord& job, const NodeId& id, size_t place);
  // Adds a warning if the node has less than the cluster file declares for it.
  void WarnOfContradiction(const NodeId& id);
  // Schedules and decides again, since placements and decisions may depend on the node.
  void ScheduleAndDecide();

  ControllerContext& context_;
  CheckpointHandler& checkpoints_;
  AttemptStarter& starter_;
  FaultHandler& faults_;
  JobCloser& closer_;
  Placement& placement_;
  SnapshotHandler& snapshots_;
  AbsentNodes& absent_;
};

}  // namespace longhaul::runtime::controller
