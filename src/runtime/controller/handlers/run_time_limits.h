// Ends jobs that have run for longer than their queues let them (max_run_time).
//
// A job's time is the time during which it has had nodes, from the start of its first attempt on,
// without the time in which it waits in its queue.
#pragma once

#include <string>

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class JobCloser;
class Placement;

class RunTimeLimits {
 public:
  RunTimeLimits(ControllerContext& context, JobCloser& closer, Placement& placement)
      : context_(context), closer_(closer), placement_(placement) {}

  // Sets or clears the job's deadline. Requires that the job has nodes.
  void Watch(const JobRecord& job);
  // The configuration may have changed: sets all deadlines anew, and ends the waiting jobs that
  // have used up their time.
  void WatchAll();
  // Whether the job has used up its time.
  bool IsOver(const JobRecord& job) const;
  // Ends the job. One that has nodes takes a last snapshot and leaves them first.
  void OnOverdue(JobRecord& job);

 private:
  std::string ReasonFor(const JobRecord& job) const;

  ControllerContext& context_;
  JobCloser& closer_;
  Placement& placement_;
};

}  // namespace longhaul::runtime::controller
