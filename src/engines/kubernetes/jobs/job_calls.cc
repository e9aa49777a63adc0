#include "engines/kubernetes/jobs/job_calls.h"

#include <string>
#include <variant>

namespace longhaul::engines::kubernetes {
namespace {

std::string TextOf(const JobJson& object) {
  return object.dump(-1, ' ', false, JobJson::error_handler_t::replace);
}

ObjectName ObjectOf(const PodName& name) { return {name.namespace_name, name.name}; }

// With the uid: an object of the same name that was made since is left alone.
std::string WithUid(JobJson patch, const PodName& object) {
  patch["metadata"]["uid"] = object.uid;
  return TextOf(patch);
}

}  // namespace

Resource LonghaulJobs() { return {"longhaul.dev", "v1", "longhauljobs", true}; }

Result<Call> CallFor(const JobAction& action) {
  if (const auto* create = std::get_if<CreateJobPod>(&action)) {
    return CreateCall(Pods(), create->pod.namespace_name, TextOf(create->object));
  }
  if (const auto* remove = std::get_if<DeleteJobPod>(&action)) {
    return DeleteCall(Pods(), ObjectOf(remove->pod), remove->pod.uid, std::nullopt);
  }
  if (const auto* patch = std::get_if<PatchJobPod>(&action)) {
    return PatchCall(Pods(), ObjectOf(patch->pod), "", PatchKind::kMerge,
                     WithUid(patch->patch, patch->pod));
  }
  if (const auto* job = std::get_if<PatchJob>(&action)) {
    return PatchCall(LonghaulJobs(), ObjectOf(job->job), job->status ? "status" : "",
                     PatchKind::kMerge, WithUid(job->patch, job->job));
  }
  const auto& event = std::get<RecordEvent>(action);
  return CreateCall({"events.k8s.io", "v1", "events", true}, event.job.namespace_name,
                    TextOf(event.event));
}

ActionResult ResultOf(const JobAction& action, const Verdict& verdict) {
  switch (verdict.outcome) {
    case Outcome::kDone:
      return ActionResult::kDone;
    case Outcome::kAlreadyExists:
      return std::holds_alternative<CreateJobPod>(action) ? ActionResult::kExists
                                                          : ActionResult::kRefused;
    case Outcome::kNotFound:
      // Of a creation: its namespace.
      return std::holds_alternative<CreateJobPod>(action) ? ActionResult::kRefused
                                                          : ActionResult::kGone;
    case Outcome::kConflict:
      // Of a creation: of a quota, which has nothing to do with the pod.
      return std::holds_alternative<CreateJobPod>(action) ? ActionResult::kRefused
                                                          : ActionResult::kConflict;
    default:
      return ActionResult::kRefused;
  }
}

}  // namespace longhaul::engines::kubernetes
