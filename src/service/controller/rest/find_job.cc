#include "service/controller/rest/find_job.h"

#include "io/clock.h"

namespace longhaul::service {

Result<proto::JobStatus> FindJob(CoreLoop& loop, const std::string& id_or_name) {
  return loop.Read([&](const runtime::Controller& core) -> Result<proto::JobStatus> {
    ASSIGN_OR_RETURN(const JobId id, core.Resolve(id_or_name));
    return *core.JobStatus(id, io::Now());
  });
}

Result<proto::JobStatus> FindOneJob(CoreLoop& loop, const std::string& id_or_name) {
  ASSIGN_OR_RETURN(proto::JobStatus job, FindJob(loop, id_or_name));
  if (!job.job().has_array()) return job;
  const std::string& id = job.job().id();
  return FailedPrecondition(id + " is an array: name one of its " +
                            std::to_string(job.job().array().count()) + " elements, such as " +
                            runtime::ElementIdOf(id, 0));
}

}  // namespace longhaul::service
