// For tests: what must hold of the statuses of LonghaulJobs that an API server stores.
#pragma once

#include <string>

#include "base/status.h"
#include "engines/kubernetes/double/api_object.h"
#include "engines/kubernetes/jobs/job_actions.h"

namespace longhaul::engines::kubernetes {

// status.phase of an object, or an empty text.
std::string PhaseOf(const Json& job);
// " Running": the phase that an action writes, for the log; empty for other actions.
std::string PhaseIn(const JobAction& action);
// The uid of the job of the pod.
std::string OwnerOf(const CreateJobPod& create);

// One phase is true and is status.phase, a condition whose status stays keeps its time, and the
// phase of a finished job stays. `before` may be null.
Status CheckStatusChange(const Json& before, const Json& after);

}  // namespace longhaul::engines::kubernetes
