// Handles faults: collects evidence, settles on a cause, and takes the cheapest sufficient action.
#pragma once

#include <string>
#include <vector>

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class AttemptStarter;
class HangHandler;
class JobCloser;
class NodeChecks;
class NumericFaults;
class Placement;
class SpareNodes;

// A node that a gang is to leave.
struct FaultyNode {
  NodeId node;
  std::string evidence;
  bool keeps_work = false;  // only this gang leaves it; else it gets no more jobs
};

class FaultHandler {
 public:
  FaultHandler(ControllerContext& context, AttemptStarter& starter, HangHandler& hangs,
               JobCloser& closer, Placement& placement, const SpareNodes& spares,
               NodeChecks& checks, NumericFaults& numbers)
      : context_(context),
        starter_(starter),
        hangs_(hangs),
        closer_(closer),
        placement_(placement),
        spares_(spares),
        checks_(checks),
        numbers_(numbers) {}

  void OnWorkerExited(const proto::Event& event);
  void OnWorkersFailedToStart(const proto::Event& event);
  void OnLogLimited(const proto::Event& event);
  // Ends the workers of the present attempt and sets the deadline for a decision.
  void NoteFault(JobRecord& job, const Evidence& evidence);
  // Adds later evidence about the newest fault.
  void ImproveCause(JobRecord& job, const Evidence& evidence);
  // Restarts the gang if the cause of the newest fault is settled and all its nodes are available.
  void TryDecide(JobRecord& job);
  void TryDecideAll();
  // A check has found why the gang fails: idle nodes take the places of these, as far as there are
  // any.
  void LeaveFaultyNodes(JobRecord& job, const std::vector<FaultyNode>& faulty);
  // Marks the faults that are over at `at` as resolved.
  void ResolveFaults(JobRecord& job, Instant at);
  // The job ends: stores what its open faults have cost.
  void ChargeOpenFaults(JobRecord& job);

 private:
  // Adds evidence that comes beside the newest fault: about it, or of another one.
  void TakeMoreEvidence(JobRecord& job, const Evidence& evidence);
  void NoteStopped(const JobRecord& job, const proto::Event& event);
  void HastenLoss(const NodeId& node);
  void LeaveFailingNode(JobRecord& job);
  // Returns whether the gang has other nodes, or does without.
  bool Leave(JobRecord& job, const std::vector<NodeId>& nodes);
  void Restart(JobRecord& job);
  // Counts the newest fault against the node that it happened on, if it is the node's own.
  void BlameNode(const JobRecord& job);

  ControllerContext& context_;
  AttemptStarter& starter_;
  HangHandler& hangs_;
  JobCloser& closer_;
  Placement& placement_;
  const SpareNodes& spares_;
  NodeChecks& checks_;
  NumericFaults& numbers_;
};

// Whether two faults of the job can be compared by the steps between them. Of one that never
// reports steps it is not known whether it made some.
bool WillReportSteps(const JobRecord& job);

}  // namespace longhaul::runtime::controller
