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
  // Ends a job that was never offered to the scheduler.
  void EndHeld(JobRecord& job, const std::string& reason);
  // Ends the job with what is on disk now. Requires that its outcome is decided.
  void Finalize(JobRecord& job);

 private:
  void Stop(JobRecord& job, const std::string& reason);
  void StopArray(const std::string& array, const std::string& reason);
  // Others may use what ended jobs have left.
  void ServeOthers();

  ControllerContext& context_;
  CheckpointHandler& checkpoints_;
  FaultHandler& faults_;
  Placement& placement_;
  bool ending_many_ = false;  // others are served once, at the end
};

}  // namespace longhaul::runtime::controller
