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
  void OnStacksOverdue(JobRecord& job);

 private:
  HangLimits LimitsOf(const JobRecord& job) const;
  void Probe(const JobRecord& job, const NodeId& node, bool resume_stopped, bool with_stacks);
  void WarnOfSilence(const JobRecord& job, const proto::WorkerSilent& silent,
                     const std::string& node);
  void TakeStop(JobRecord& job, uint32_t rank, const NodeId& node);
  void TakeIdle(JobRecord& job);
  // Gathers the stacks of a command's workers, and then reports the hang as a fault.
  void NoteHang(JobRecord& job, Evidence evidence);

  ControllerContext& context_;
  FaultHandler& faults_;
};

}  // namespace longhaul::runtime::controller
