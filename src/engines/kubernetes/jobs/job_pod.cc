#include "engines/kubernetes/jobs/job_pod.h"

#include <optional>

#include "base/text.h"
#include "engines/kubernetes/jobs/json_members.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMostPodMessage = 1'000;

Result<uint32_t> LabelNumber(const JobJson& labels, std::string_view name) {
  const Result<int64_t> number = ParseInt64(TextAt(labels, name));
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
    if (TextAt(status, "name") == name) return status;
  }
  return kNone;
}

// Why a container waits, or how it ended: "ImagePullBackOff: ..." or "exit code 137".
std::string TroubleOf(const JobJson& container) {
  const JobJson& state = MemberOf(container, "state");
  const JobJson& waiting = MemberOf(state, "waiting");
  const std::string reason = TextAt(waiting, "reason");
  if (reason == "PodInitializing" || reason == "ContainerCreating") return "";
  if (!reason.empty()) {
    const std::string message = TextAt(waiting, "message");
    return message.empty() ? reason : reason + ": " + message;
  }
  const JobJson& ended = MemberOf(state, "terminated");
  const JobJson& code = MemberOf(ended, "exitCode");
  if (!code.is_number_integer() || code == 0) return "";
  return "container " + TextAt(container, "name") + ": exit code " + code.dump();
}

std::string TroubleOfPod(const JobJson& status) {
  for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
    const JobJson& statuses = MemberOf(status, list);
    if (!statuses.is_array()) continue;
    for (const JobJson& container : statuses) {
      const std::string trouble = TroubleOf(container);
      if (!trouble.empty()) return trouble;
    }
  }
  const std::string reason = TextAt(status, "reason");
  const std::string message = TextAt(status, "message");
  if (!reason.empty()) return message.empty() ? reason : reason + ": " + message;
  const JobJson& conditions = MemberOf(status, "conditions");
  if (!conditions.is_array()) return "";
  for (const JobJson& condition : conditions) {
    const bool waits = TextAt(condition, "type") == "PodScheduled" &&
                       TextAt(condition, "status") == "False" &&
                       TextAt(condition, "reason") == "Unschedulable";
    if (waits) return TextAt(condition, "message");
  }
  return "";
}

void ReadStatus(const JobJson& status, JobPod& pod) {
  const std::string phase = TextAt(status, "phase");
  pod.succeeded = phase == "Succeeded";
  pod.failed = phase == "Failed";
  pod.ip = TextAt(status, "podIP");
  pod.trouble = Printable(TroubleOfPod(status), kMostPodMessage);
  const std::string_view main =
      pod.role == JobPodRole::kController ? kControllerContainer : kWorkerContainer;
  const JobJson& container = ContainerStatus(MemberOf(status, "containerStatuses"), main);
  const JobJson& restarts = MemberOf(container, "restartCount");
  if (restarts.is_number_unsigned()) pod.restarts = restarts.get<int64_t>();
  pod.running = MemberOf(MemberOf(container, "state"), "running").is_object();
  if (pod.role != JobPodRole::kController) return;
  pod.outcome = TextAt(MemberOf(MemberOf(container, "state"), "terminated"), "message");
  const JobJson& init =
      ContainerStatus(MemberOf(status, "initContainerStatuses"), kAuthorityContainer);
  const JobJson& ended = MemberOf(MemberOf(init, "state"), "terminated");
  if (MemberOf(ended, "exitCode") == 0) pod.authority = TextAt(ended, "message");
}

}  // namespace

Result<JobPod> ReadJobPod(const JobJson& object) {
  JobPod pod;
  const JobJson& meta = MemberOf(object, "metadata");
  const JobJson& labels = MemberOf(meta, "labels");
  pod.namespace_name = TextAt(meta, "namespace");
  pod.name = TextAt(meta, "name");
  pod.uid = TextAt(meta, "uid");
  pod.job = TextAt(labels, kJobLabel);
  pod.owner_uid = ControllerUid(meta);
  pod.being_deleted = MemberOf(meta, "deletionTimestamp").is_string();
  if (pod.name.empty() || pod.uid.empty() || pod.job.empty()) {
    return InvalidArgument("metadata: a pod of a job has a name, a uid and the label " +
                           std::string(kJobLabel));
  }
  const std::string role = TextAt(labels, kRoleLabel);
  if (role != "controller" && role != "worker") {
    return InvalidArgument("pod " + pod.Key() + ": the label " + std::string(kRoleLabel) +
                           " is neither controller nor worker");
  }
  pod.role = role == "controller" ? JobPodRole::kController : JobPodRole::kWorker;
  ASSIGN_OR_RETURN(pod.life, LabelNumber(labels, kLifeLabel));
  if (pod.role == JobPodRole::kWorker) {
    ASSIGN_OR_RETURN(pod.index, LabelNumber(labels, kIndexLabel));
  }
  pod.extra = labels.is_object() && labels.contains(kExtraLabel);
  const JobJson& annotations = MemberOf(meta, "annotations");
  pod.template_hash = TextAt(annotations, kTemplateAnnotation);
  pod.job_file = TextAt(annotations, kJobAnnotation);
  pod.token_keys = TextAt(annotations, kKeysAnnotation);
  pod.controller = TextAt(annotations, kControllerAnnotation);
  pod.worker_authority = TextAt(annotations, kAuthorityAnnotation);
  const JobJson& spec = MemberOf(object, "spec");
  pod.node = TextAt(spec, "nodeName");
  const JobJson& gates = MemberOf(spec, "schedulingGates");
  if (gates.is_array()) {
    for (const JobJson& gate : gates) pod.gated = pod.gated || TextAt(gate, "name") == kGangGate;
  }
  ReadStatus(MemberOf(object, "status"), pod);
  return pod;
}

}  // namespace longhaul::engines::kubernetes
