// Names the worker that stands still soon after the steps of a command cease. Takes no action: the
// restart follows after the limits of HangHandler, which are longer, because a pause of all workers
// may be intended.
#pragma once

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class HangSuspicions {
 public:
  explicit HangSuspicions(ControllerContext& context) : context_(context) {}

  // A step was reported: sets the deadline of the next one.
  void Watch(JobRecord& job);
  // A worker has exited: if it did with 0, those that do not end are named later.
  void OnWorkerExited(const proto::Event& event);
  // The controller has started: the time without it does not count.
  void WatchEnd(JobRecord& job);
  void OnDue(JobRecord& job);
  void OnWorkersProbed(const proto::Event& event);

 private:
  bool Applies(const JobRecord& job) const;
  Duration Patience(const JobRecord& job) const;
  void Probe(const JobRecord& job, bool with_stacks);
  void SetDeadline(const JobRecord& job, Duration after);
  void Conclude(JobRecord& job);

  ControllerContext& context_;
};

}  // namespace longhaul::runtime::controller
