// Whether the API server and the operator accept a LonghaulJob that was made from another job.
#pragma once

#include <string_view>

#include "base/status.h"
#include "engines/kubernetes/jobs/longhaul_job.h"

namespace longhaul::engines::kubernetes {

// At most 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit.
bool IsDnsLabel(std::string_view text);
// The name of an extended resource, such as nvidia.com/gpu, as the definition of LonghaulJob has
// it.
bool IsDeviceResource(std::string_view text);

// Reads the job as the operator does, and its job file as the controller does. kInvalidArgument
// with the field for one that any of them refuses, or that is too large for the API server.
Status CheckLonghaulJob(const JobJson& job);

}  // namespace longhaul::engines::kubernetes
