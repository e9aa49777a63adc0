// What is done about faults: evidence comes in, a cause is settled on, and the cheapest sufficient
// action is taken.
#pragma once

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class AttemptStarter;
class HangHandler;
class JobCloser;
class Placement;

class FaultHandler {
 public:
  FaultHandler(ControllerContext& context, AttemptStarter& starter, HangHandler& hangs,
               JobCloser& closer, Placement& placement)
      : context_(context),
        starter_(starter),
        hangs_(hangs),
        closer_(closer),
        placement_(placement) {}

  void OnWorkerExited(const proto::Event& event);
  void OnWorkersFailedToStart(const proto::Event& event);
  // The workers of the present attempt end, and a decision is due.
  void NoteFault(JobRecord& job, const Evidence& evidence);
  // Later evidence about the newest fault.
  void ImproveCause(JobRecord& job, const Evidence& evidence);
  // Restarts the gang if the cause of the newest fault is settled and every node of it can be had.
  void TryDecide(JobRecord& job);
  void TryDecideAll();
  // Ends the faults that are over at `at`.
  void ResolveFaults(JobRecord& job, Instant at);

 private:
  void Restart(JobRecord& job);
  // Counts the newest fault against the node that it happened on, if it is the node's own.
  void BlameNode(const JobRecord& job);

  ControllerContext& context_;
  AttemptStarter& starter_;
  HangHandler& hangs_;
  JobCloser& closer_;
  Placement& placement_;
};

// Rank seconds of badput that count as the cost of faults.
double BadRankSeconds(const proto::Ledger& ledger);

}  // namespace longhaul::runtime::controller
