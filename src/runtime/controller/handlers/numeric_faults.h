// Numeric faults: losses that are NaN or infinite, and losses that rise far above the ones before
// (docs/numeric-faults.md).
//
// By the job's policy such a loss is warned of, stops the job, or leads to a rollback: the job goes
// back to the newest snapshot that is good and does the same steps again. If the finding repeats,
// the program or its data is the cause, and the job stops. If it does not, a device is suspected.
//
//   report with a bad loss -> fault -> bad states are forgotten -> restart -> replay
//     -> bad again: the job fails      -> not again: a warning names the suspected node
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class FaultHandler;
class JobCloser;

class NumericFaults {
 public:
  NumericFaults(ControllerContext& context, FaultHandler& faults, JobCloser& closer)
      : context_(context), faults_(faults), closer_(closer) {}

  // Checks the losses of a report that counts. May begin a fault.
  // `first_step`: the first step that it adds.
  void TakeReport(JobRecord& job, const proto::StepReported& report, uint64_t first_step,
                  size_t place, Instant at);
  // A report arrives while a fault awaits its decision: another node may have had the bad loss
  // before.
  void TakeLate(JobRecord& job, const proto::StepReported& report, size_t place);
  // The fault that is being decided may be numeric: then no state from its steps on is used again.
  void ForgetBadStates(JobRecord& job);
  // Returns whether the newest fault ends the job. Requires that the fault is undecided and that
  // all nodes of the gang are connected or lost.
  bool EndsJob(JobRecord& job);

 private:
  void TakeNotFinite(JobRecord& job, const proto::StepReported& report, uint64_t first_step,
                     size_t place, Instant at);
  void TakeSpike(JobRecord& job, const proto::StepReported& report, Instant at);
  void Raise(JobRecord& job, const NumericFinding& finding, Instant at);
  // Describes the open finding, and sets where it was reported.
  Evidence EvidenceOf(JobRecord& job, Instant at) const;
  // Returns why the job cannot go on from an earlier state; empty: it can.
  std::string WhyNoRollback(const JobRecord& job) const;
  bool Stop(JobRecord& job, const std::string& cause);
  void EndReplayIfClean(JobRecord& job);

  ControllerContext& context_;
  FaultHandler& faults_;
  JobCloser& closer_;
};

}  // namespace longhaul::runtime::controller
