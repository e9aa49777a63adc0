// Decides which jobs may be submitted, and adds them.
#pragma once

#include <string>

#include "base/status.h"
#include "runtime/controller/controller_context.h"
#include "runtime/controller/handlers/job_releaser.h"

namespace longhaul::runtime::controller {

class Placement;

class JobAdmission {
 public:
  JobAdmission(ControllerContext& context, Placement& placement, const JobReleaser& releaser)
      : context_(context), placement_(placement), releaser_(releaser) {}

  // Returns the reason why a job may not be submitted.
  Status CheckSubmission(const proto::Job& job) const;
  // The same for jobs of which all or none are accepted.
  Status CheckSubmission(const proto::JobsSubmitted& submitted) const;
  // Jobs that CheckSubmission refuses change nothing.
  void OnJobSubmitted(const proto::Job& spec);
  void OnJobsSubmitted(const proto::JobsSubmitted& submitted);

 private:
  // `earlier`: the same submission's jobs before it.
  Status CheckOne(const proto::Job& job, const EarlierJobs& earlier) const;
  Status CheckArray(const proto::Job& job) const;
  Status CheckDirectory(const proto::Job& job) const;
  JobRecord& AddJob(const proto::Job& spec);
  // Adds a job that waits for others, or all elements of an array. They are not offered to the
  // scheduler yet.
  void AddHeld(const proto::Job& spec);

  ControllerContext& context_;
  Placement& placement_;
  const JobReleaser& releaser_;
};

}  // namespace longhaul::runtime::controller
