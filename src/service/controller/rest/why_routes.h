// The route of the REST API that explains why a job waits, and which changes would start it.
// Thread-safe.
#pragma once

#include <string>

#include "base/status.h"
#include "service/controller/core_loop.h"
#include "service/controller/rest/api_response.h"

namespace longhaul::service {

class WhyRoutes {
 public:
  // Requires that `loop` outlives this.
  explicit WhyRoutes(CoreLoop& loop) : loop_(loop) {}

  // Returns the reason in words and numbers, and changes that the scheduler has tried on a copy.
  ApiResponse Get(const std::string& id_or_name) const;

 private:
  Result<proto::JobStatus> FirstWaiting(const proto::Job& array) const;

  CoreLoop& loop_;
};

}  // namespace longhaul::service
