#include "engines/kubernetes/jobs/job_calls.h"

#include <string>
#include <variant>

#include "engines/kubernetes/protocol/event_call.h"

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
Resource Workloads() { return {"kueue.x-k8s.io", "v1beta2", "workloads", true}; }
Resource ResourceFlavors() { return {"kueue.x-k8s.io", "v1beta2", "resourceflavors", false}; }
Resource WorkloadPriorityClasses() {
  return {"kueue.x-k8s.io", "v1beta2", "workloadpriorityclasses", false};
}
Resource PriorityClasses() { return {"scheduling.k8s.io", "v1", "priorityclasses", false}; }

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
  if (const auto* make = std::get_if<CreateWorkload>(&action)) {
    return CreateCall(Workloads(), make->workload.namespace_name, TextOf(make->object));
  }
  if (const auto* end = std::get_if<DeleteWorkload>(&action)) {
    return DeleteCall(Workloads(), ObjectOf(end->workload), end->workload.uid, std::nullopt);
  }
  if (const auto* change = std::get_if<PatchWorkload>(&action)) {
    return PatchCall(Workloads(), ObjectOf(change->workload), "status", PatchKind::kMerge,
                     WithUid(change->patch, change->workload));
  }
  const auto& event = std::get<RecordEvent>(action);
  return CreateEventCall(event.event);
}

ActionResult ResultOf(const JobAction& action, const Verdict& verdict) {
  const bool creates = std::holds_alternative<CreateJobPod>(action) ||
                       std::holds_alternative<CreateWorkload>(action);
  switch (verdict.outcome) {
    case Outcome::kDone:
      return ActionResult::kDone;
    case Outcome::kAlreadyExists:
      return creates ? ActionResult::kExists : ActionResult::kRefused;
    case Outcome::kNotFound:
      // Of a creation: its namespace.
      return creates ? ActionResult::kRefused : ActionResult::kGone;
    case Outcome::kConflict:
      // Of a creation: of a quota, which has nothing to do with the pod.
      return creates ? ActionResult::kRefused : ActionResult::kConflict;
    default:
      return ActionResult::kRefused;
  }
}

}  // namespace longhaul::engines::kubernetes
