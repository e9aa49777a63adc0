#include "scheduler/internal/jobs/job_entry.h"

namespace longhaul::scheduler::internal {

share::Holding WholeOf(const JobEntry& job, const spec::SharedAmounts& amounts) {
  return {job.queue, amounts, job.request->owner, 1};
}

share::Holding PartOf(const JobEntry& job, const spec::SharedAmounts& amounts) {
  return {job.queue, amounts, job.request->owner, 0};
}

share::Holding HeldBy(const JobEntry& job) { return WholeOf(job, job.held); }

}  // namespace longhaul::scheduler::internal
