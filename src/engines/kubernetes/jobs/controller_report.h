// What the controller of a job answers about it, over its REST API (docs/openapi.yaml).
#pragma once

#include <string>

#include "base/status.h"
#include "engines/kubernetes/jobs/job_status.h"

namespace longhaul::engines::kubernetes {

// Reads the answers to GET /v1/jobs and GET /v1/nodes. The controller has one job, or none yet.
Result<ControllerReport> ReadControllerReport(const std::string& jobs, const std::string& nodes);

}  // namespace longhaul::engines::kubernetes
