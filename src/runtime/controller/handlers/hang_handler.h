// Detects workers that hang: deadlines for their start and their next step, probes, waits that they
// report, and processes that show no sign of life.
#pragma once

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class FaultHandler;

class HangHandler {
 public:
  HangHandler(ControllerContext& context, FaultHandler& faults)
      : context_(context), faults_(faults) {}

  // Sets the deadline of the next step again.
  void WatchProgress(JobRecord& job);
  void OnStartOverdue(JobRecord& job);
  void OnProgressOverdue(JobRecord& job);
  void OnWorkersProbed(const proto::Event& event);
  void OnWorkerWaits(const proto::Event& event);
  void OnWorkerSilent(const proto::Event& event);

 private:
  HangLimits LimitsOf(const JobRecord& job) const;

  ControllerContext& context_;
  FaultHandler& faults_;
};

}  // namespace longhaul::runtime::controller
