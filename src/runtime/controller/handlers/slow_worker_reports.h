// Names the workers and connections that make the steps of a job slower than they would be. Takes
// no action: whether a restart elsewhere pays, people decide.
#pragma once

#include <string>

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class SlowWorkerReports {
 public:
  explicit SlowWorkerReports(ControllerContext& context) : context_(context) {}

  // The node that reports for the job has reported `count` steps, which took `took`.
  void TakeSteps(JobRecord& job, Duration took, uint64_t count);
  void OnWorkersSampled(const proto::Event& event);
  void OnWorkersProbed(const proto::Event& event);
  // Not every node has answered in time.
  void OnDue(JobRecord& job);

 private:
  bool Applies(const JobRecord& job) const;
  void Look(JobRecord& job);
  void Conclude(JobRecord& job);
  void NoteEnd(const JobRecord& job);
  void GatherStacks(JobRecord& job);
  void Name(JobRecord& job);

  ControllerContext& context_;
};

}  // namespace longhaul::runtime::controller
