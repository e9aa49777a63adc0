// What must hold between two steps of the controller.
#pragma once

#include "base/status.h"
#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class Placement;

class Invariants {
 public:
  Invariants(const ControllerContext& context, const Placement& placement)
      : context_(context), placement_(placement) {}

  // Of the jobs that the last step may have changed.
  Status CheckTouched() const;
  // That what the scheduler has placed is what runs, for all jobs and nodes.
  Status CheckPlaces() const;

 private:
  Status CheckJob(const JobRecord& job) const;
  // A decision that is due has a deadline, or a node to wait for.
  Status CheckDecision(const JobRecord& job) const;
  // What only changes with the attempt, and takes as long as the gang is.
  Status CheckGang(const JobRecord& job) const;
  Status CheckPlace(const JobRecord& job) const;

  const ControllerContext& context_;
  const Placement& placement_;
};

}  // namespace longhaul::runtime::controller
