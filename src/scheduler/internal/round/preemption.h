// The pass that makes room for waiting jobs which have a right to it, by their priority or by the
// guarantee of their queue.
//
// Jobs are stopped, shrunk or moved only where it is proved that the waiting job fits afterwards
// (internal/room/make_room.h). A round never stops a job that it has started itself.
#pragma once

#include "scheduler/internal/round/one_gpu_victims.h"
#include "scheduler/internal/round/round_context.h"

namespace longhaul::scheduler::internal {

class PreemptionPass {
 public:
  // `context` outlives this.
  explicit PreemptionPass(RoundContext& context) : context_(context), one_gpu_(context.state) {}

  // Tries all waiting jobs in the fair order.
  void Run();

  // Stops or moves other jobs and starts `job` in their place, if the job has the right to do so
  // and fits afterwards. Returns whether it started. Requires that the job waits.
  bool TryMakeRoom(JobEntry& job);

 private:
  bool FindAndTakeRoom(JobEntry& job);
  void StartOnOneGpu(JobEntry& job, const OneGpuVictims::Choice& choice);
  void NoteSpared(const JobEntry& job);

  RoundContext& context_;
  OneGpuVictims one_gpu_;
};

}  // namespace longhaul::scheduler::internal
