// Decides which jobs may be submitted, and adds them.
#pragma once

#include "base/status.h"
#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class Placement;

class JobAdmission {
 public:
  JobAdmission(ControllerContext& context, Placement& placement)
      : context_(context), placement_(placement) {}

  // Returns the reason why a job may not be submitted.
  Status CheckSubmission(const proto::Job& job) const;
  // A job that CheckSubmission refuses changes nothing.
  void OnJobSubmitted(const proto::Job& spec);

 private:
  ControllerContext& context_;
  Placement& placement_;
};

}  // namespace longhaul::runtime::controller
