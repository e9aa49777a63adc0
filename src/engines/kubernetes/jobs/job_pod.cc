#include "engines/kubernetes/jobs/job_pod.h"

#include <optional>

#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMostMessage = 1'000;

const JobJson& Find(const JobJson& object, std::string_view name) {
  static const JobJson kNone;
  if (!object.is_object()) return kNone;
  const auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

std::string Text(const JobJson& object, std::string_view name) {
  const JobJson& value = Find(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}

Result<uint32_t> LabelNumber(const JobJson& labels, std::string_view name) {
  const Result<int64_t> number = ParseInt64(Text(labels, name));
  if (!number.ok() || *number < 0 || *number > INT32_MAX) {
    return InvalidArgument("the label " + std::string(name) + " is not a number");
  }
  return static_cast<uint32_t>(*number);
}

// The status of a container, or null.
const JobJson& ContainerStatus(const JobJson& list, std::string_view name) {
  static const JobJson kNone;
  if (!list.is_array()) return kNone;
  for (const JobJson& status : list) {
    if (Text(status, "name") == name) return status;
  }
  return kNone;
}

std::string OwnerOf(const JobJson& meta) {
  const JobJson& owners = Find(meta, "ownerReferences");
  if (!owners.is_array()) return "";
  for (const JobJson& owner : owners) {
    if (Find(owner, "controller") == true) return Text(owner, "uid");
  }
  return "";
}

// Why a container waits, or how it ended: "ImagePullBackOff: ..." or "exit code 137".
std::string TroubleOf(const JobJson& container) {
  const JobJson& state = Find(container, "state");
  const JobJson& waiting = Find(state, "waiting");
  const std::string reason = Text(waiting, "reason");
  if (reason == "PodInitializing" || reason == "ContainerCreating") return "";
  if (!reason.empty()) {
    const std::string message = Text(waiting, "message");
    return message.empty() ? reason : reason + ": " + message;
  }
  const JobJson& ended = Find(state, "terminated");
  const JobJson& code = Find(ended, "exitCode");
  if (!code.is_number_integer() || code == 0) return "";
  return "container " + Text(container, "name") + ": exit code " + code.dump();
}

std::string TroubleOfPod(const JobJson& status) {
  for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
    const JobJson& statuses = Find(status, list);
    if (!statuses.is_array()) continue;
    for (const JobJson& container : statuses) {
      const std::string trouble = TroubleOf(container);
      if (!trouble.empty()) return trouble;
    }
  }
  const std::string reason = Text(status, "reason");
  const std::string message = Text(status, "message");
  if (!reason.empty()) return message.empty() ? reason : reason + ": " + message;
  const JobJson& conditions = Find(status, "conditions");
  if (!conditions.is_array()) return "";
  for (const JobJson& condition : conditions) {
    const bool waits = Text(condition, "type") == "PodScheduled" &&
                       Text(condition, "status") == "False" &&
                       Text(condition, "reason") == "Unschedulable";
    if (waits) return Text(condition, "message");
  }
  return "";
}

void ReadStatus(const JobJson& status, JobPod& pod) {
  const std::string phase = Text(status, "phase");
  pod.succeeded = phase == "Succeeded";
  pod.failed = phase == "Failed";
  pod.ip = Text(status, "podIP");
  pod.trouble = Printable(TroubleOfPod(status), kMostMessage);
  const std::string_view main =
      pod.role == JobPodRole::kController ? kControllerContainer : kWorkerContainer;
  const JobJson& container = ContainerStatus(Find(status, "containerStatuses"), main);
  const JobJson& restarts = Find(container, "restartCount");
  if (restarts.is_number_unsigned()) pod.restarts = restarts.get<int64_t>();
  pod.running = Find(Find(container, "state"), "running").is_object();
  if (pod.role != JobPodRole::kController) return;
  pod.outcome = Text(Find(Find(container, "state"), "terminated"), "message");
  const JobJson& init = ContainerStatus(Find(status, "initContainerStatuses"), kAuthorityContainer);
  const JobJson& ended = Find(Find(init, "state"), "terminated");
  if (Find(ended, "exitCode") == 0) pod.authority = Text(ended, "message");
}

}  // namespace

Result<JobPod> ReadJobPod(const JobJson& object) {
  JobPod pod;
  const JobJson& meta = Find(object, "metadata");
  const JobJson& labels = Find(meta, "labels");
  pod.namespace_name = Text(meta, "namespace");
  pod.name = Text(meta, "name");
  pod.uid = Text(meta, "uid");
  pod.job = Text(labels, kJobLabel);
  pod.owner_uid = OwnerOf(meta);
  pod.being_deleted = Find(meta, "deletionTimestamp").is_string();
  if (pod.name.empty() || pod.uid.empty() || pod.job.empty()) {
    return InvalidArgument("metadata: a pod of a job has a name, a uid and the label " +
                           std::string(kJobLabel));
  }
  const std::string role = Text(labels, kRoleLabel);
  if (role != "controller" && role != "worker") {
    return InvalidArgument("pod " + pod.Key() + ": the label " + std::string(kRoleLabel) +
                           " is neither controller nor worker");
  }
  pod.role = role == "controller" ? JobPodRole::kController : JobPodRole::kWorker;
  ASSIGN_OR_RETURN(pod.life, LabelNumber(labels, kLifeLabel));
  if (pod.role == JobPodRole::kWorker) {
    ASSIGN_OR_RETURN(pod.index, LabelNumber(labels, kIndexLabel));
  }
  const JobJson& annotations = Find(meta, "annotations");
  pod.job_file = Text(annotations, kJobAnnotation);
  pod.token_keys = Text(annotations, kKeysAnnotation);
  pod.controller = Text(annotations, kControllerAnnotation);
  pod.worker_authority = Text(annotations, kAuthorityAnnotation);
  const JobJson& spec = Find(object, "spec");
  pod.node = Text(spec, "nodeName");
  const JobJson& gates = Find(spec, "schedulingGates");
  if (gates.is_array()) {
    for (const JobJson& gate : gates) pod.gated = pod.gated || Text(gate, "name") == kGangGate;
  }
  ReadStatus(Find(object, "status"), pod);
  return pod;
}

}  // namespace longhaul::engines::kubernetes
