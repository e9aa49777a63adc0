// Ends jobs: stops their workers, waits until the newest snapshot is on disk, and decides the
// outcome of a job that could not save its last state.
#pragma once

#include <string>

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class CheckpointHandler;
class FaultHandler;
class Placement;

class JobCloser {
 public:
  JobCloser(ControllerContext& context, CheckpointHandler& checkpoints, FaultHandler& faults,
            Placement& placement)
      : context_(context), checkpoints_(checkpoints), faults_(faults), placement_(placement) {}

  void OnJobStopRequested(const proto::JobStopRequested& request);
  void OnAttemptClosed(const proto::Event& event);
  // Ends a job that is being stopped once no worker is left.
  void CloseIfStopped(JobRecord& job);
  // The outcome is decided; the job ends once the newest snapshot is on disk.
  void BeginClosing(JobRecord& job, proto::JobState outcome, const std::string& reason);
  void CloseIfSaved(JobRecord& job);
  // Ends the job with what is on disk now. Requires that its outcome is decided.
  void Finalize(JobRecord& job);

 private:
  ControllerContext& context_;
  CheckpointHandler& checkpoints_;
  FaultHandler& faults_;
  Placement& placement_;
};

}  // namespace longhaul::runtime::controller
