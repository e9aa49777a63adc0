// Checks the nodes of a gang before it starts, if some of them are new: no check of theirs has
// ended since they joined or came back from a loss (scheduling.check_new_nodes of the controller's
// file). The service runs the check (Actions::checks).
//
//   attempt is opened -> check -> the store is opened, or faulty nodes are replaced and cordoned
#pragma once

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class AttemptStarter;
class FaultHandler;

class StartChecks {
 public:
  StartChecks(ControllerContext& context, AttemptStarter& starter, FaultHandler& faults)
      : context_(context), starter_(starter), faults_(faults) {}

  // Orders a check if the present attempt calls for one. Returns whether its start waits for that.
  bool Await(JobRecord& job);
  // The result of a check that Await has ordered.
  void OnNodesChecked(const proto::Event& event);
  // The check has not ended in time.
  void OnOverdue(JobRecord& job);
  // The controller has started again: the results of checks under way are lost.
  void ForgetAll();

 private:
  bool IsCalledFor(const JobRecord& job) const;
  void Conclude(JobRecord& job);

  ControllerContext& context_;
  AttemptStarter& starter_;
  FaultHandler& faults_;
};

}  // namespace longhaul::runtime::controller
