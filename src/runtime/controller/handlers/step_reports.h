// Step reports of workers: each one is checked against the lease, booked in the goodput ledger and
// counted as progress. Planned faults are injected at their steps.
#pragma once

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class FaultHandler;
class HangHandler;
class HangSuspicions;
class NumericFaults;
class Placement;
class SlowWorkerReports;

class StepReports {
 public:
  StepReports(ControllerContext& context, FaultHandler& faults, NumericFaults& numbers,
              HangHandler& hangs, HangSuspicions& suspicions, SlowWorkerReports& slow_workers,
              Placement& placement)
      : context_(context),
        faults_(faults),
        numbers_(numbers),
        hangs_(hangs),
        suspicions_(suspicions),
        slow_workers_(slow_workers),
        placement_(placement) {}

  void OnStepReported(const proto::Event& event);
  void OnWorkerResult(const proto::WorkerResult& result);

 private:
  void TakeFirstOutput(JobRecord& job, const proto::StepReported& report, Instant at);
  void TakeProgress(JobRecord& job, const proto::StepReported& report, Instant at);
  void ReportStall(JobRecord& job, uint64_t step, Duration stall, Instant at);
  void TakeLate(JobRecord& job, const proto::StepReported& report, size_t place);
  void AddStepNotification(JobRecord& job, const proto::StepReported& report);
  void InjectDueFaults(JobRecord& job);
  void Inject(JobRecord& job, const proto::PlannedFault& fault, size_t place);

  ControllerContext& context_;
  FaultHandler& faults_;
  NumericFaults& numbers_;
  HangHandler& hangs_;
  HangSuspicions& suspicions_;
  SlowWorkerReports& slow_workers_;
  Placement& placement_;
};

}  // namespace longhaul::runtime::controller
