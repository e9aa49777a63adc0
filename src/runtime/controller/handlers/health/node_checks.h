// Checks the nodes of a gang that hangs again and again although nothing names the cause
// (docs/hangs.md), or in which a device is suspected of wrong results (docs/numeric-faults.md). The
// service runs the check (Actions::checks); this decides when, and what follows from it.
//
//   second hang without a step -> its workers have ended -> check -> faulty nodes are replaced and
//   cordoned -> restart
#pragma once

#include <string>
#include <vector>

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class FaultHandler;
struct FaultyNode;

// The members of the gang that the check has found faulty. Of a faulty connection between two good
// nodes the second one leaves, and keeps its work.
std::vector<FaultyNode> FaultyNodesOf(const proto::NodesChecked& checked, const WorkerGroup& group);
// What else is to be said about a check: its error, or that no node is faulty; what is undecided.
std::string FindingsOf(const proto::NodesChecked& checked, const std::vector<FaultyNode>& faulty);

class NodeChecks {
 public:
  NodeChecks(ControllerContext& context, FaultHandler& faults)
      : context_(context), faults_(faults) {}

  // Begins a check if the newest fault calls for one. Returns whether the decision on that fault
  // has to wait for a check. Requires that the fault is undecided and that all nodes of the gang
  // are connected or lost.
  bool Await(JobRecord& job);
  void OnNodesChecked(const proto::Event& event);
  // The workers have not ended, or the check has not, in time.
  void OnOverdue(JobRecord& job);
  // The controller has started again: the results of checks under way are lost.
  void ForgetAll();

 private:
  bool IsCalledFor(const JobRecord& job) const;
  void Order(JobRecord& job);
  // Ends the check: takes the job off the faulty nodes, and decides on the fault.
  void Conclude(JobRecord& job, const std::vector<FaultyNode>& faulty);

  ControllerContext& context_;
  FaultHandler& faults_;
};

}  // namespace longhaul::runtime::controller
