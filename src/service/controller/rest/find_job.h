// The job that a request names.
#pragma once

#include <string>

#include "base/status.h"
#include "service/controller/core_loop.h"

namespace longhaul::service {

// Returns the job or array with this id, or the only one with this name.
Result<proto::JobStatus> FindJob(CoreLoop& loop, const std::string& id_or_name);
// The same; refuses an array.
Result<proto::JobStatus> FindOneJob(CoreLoop& loop, const std::string& id_or_name);

}  // namespace longhaul::service
