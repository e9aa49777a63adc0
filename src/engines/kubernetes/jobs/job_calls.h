// Actions of the operator as calls of the API, and what the replies mean.
#pragma once

#include "base/status.h"
#include "engines/kubernetes/jobs/job_actions.h"
#include "engines/kubernetes/jobs/job_operator.h"
#include "engines/kubernetes/protocol/call.h"
#include "engines/kubernetes/protocol/response.h"

namespace longhaul::engines::kubernetes {

Resource LonghaulJobs();
// Kueue's resources, and the priority classes of pods.
Resource Workloads();
Resource ResourceFlavors();
Resource WorkloadPriorityClasses();
Resource PriorityClasses();

Result<Call> CallFor(const JobAction& action);

ActionResult ResultOf(const JobAction& action, const Verdict& verdict);

}  // namespace longhaul::engines::kubernetes
