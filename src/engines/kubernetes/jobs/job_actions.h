// What the operator of LonghaulJobs asks of the API server.
#pragma once

#include <string>
#include <variant>

#include "engines/kubernetes/jobs/longhaul_job.h"
#include "engines/kubernetes/scheduling/pod_actions.h"

namespace longhaul::engines::kubernetes {

inline PodName NameOf(const LonghaulJob& job) { return {job.namespace_name, job.name, job.uid}; }

// A pod that exists already is not made again: names are the same for the same decision.
struct CreateJobPod {
  PodName pod;  // without a uid
  JobJson object;
};
// With the pod's own grace period.
struct DeleteJobPod {
  PodName pod;
};
// A merge patch of the pod with this uid.
struct PatchJobPod {
  PodName pod;
  JobJson patch;
};
// A merge patch of the job with this uid, or of its status.
struct PatchJob {
  PodName job;
  JobJson patch;
  bool status = false;
};
// Of the job's Workload in Kueue: a merge patch is of its status.
struct CreateWorkload {
  PodName job;
  PodName workload;  // without a uid
  JobJson object;
};
struct DeleteWorkload {
  PodName job;
  PodName workload;
};
struct PatchWorkload {
  PodName job;
  PodName workload;
  JobJson patch;
};
// An event of the job, for kubectl describe. No answer is expected.
struct RecordEvent {
  PodName job;
  JobJson event;
};
using JobAction = std::variant<CreateJobPod, DeleteJobPod, PatchJobPod, PatchJob, CreateWorkload,
                               DeleteWorkload, PatchWorkload, RecordEvent>;

// Identifies what an action changes: one is under way at a time.
std::string TargetOf(const JobAction& action);

}  // namespace longhaul::engines::kubernetes
