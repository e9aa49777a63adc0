// The invariants that hold between two steps of the controller.
#pragma once

#include "base/status.h"
#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class Placement;

class Invariants {
 public:
  Invariants(const ControllerContext& context, const Placement& placement)
      : context_(context), placement_(placement) {}

  // Checks the jobs that the last step may have changed.
  Status CheckTouched() const;
  // Checks for all jobs and nodes that what the scheduler has placed is what runs.
  Status CheckPlaces() const;

 private:
  Status CheckJob(const JobRecord& job) const;
  // Checks that a pending decision has a deadline, or a node that it waits for.
  Status CheckDecision(const JobRecord& job) const;
  // Checks what changes only with the attempt; its time is proportional to the gang's size.
  Status CheckGang(const JobRecord& job) const;
  Status CheckPlace(const JobRecord& job) const;

  const ControllerContext& context_;
  const Placement& placement_;
};

}  // namespace longhaul::runtime::controller
