#include "engines/kubernetes/jobs/kueue/job_queue.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/hash.h"
#include "engines/kubernetes/jobs/job_actions.h"
#include "engines/kubernetes/jobs/job_status.h"
#include "engines/kubernetes/jobs/json_members.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr std::string_view kNamePrefix = "longhaul-";
constexpr const char* kUidLabel = "kueue.x-k8s.io/job-uid";
// Of a pod template, and what they become in a request of a Workload.
constexpr std::array<std::pair<const char*, const char*>, 2> kTopologies = {
    {{"kueue.x-k8s.io/podset-required-topology", "required"},
     {"kueue.x-k8s.io/podset-preferred-topology", "preferred"}}};
constexpr std::string_view kPodsReady = "PodsReady";
constexpr std::string_view kRequeued = "Requeued";
// Kueue's request to itself to set spec.active to false. A Workload that still has it when somebody
// sets spec.active to true is deactivated again.
constexpr std::string_view kDeactivationTarget = "DeactivationTarget";
// Evicted has this reason, or DeactivatedDueTo and a cause. Kueue sets Requeued to True for a
// Workload that becomes active again only where the reason of Requeued is this one alone.
constexpr std::string_view kDeactivated = "Deactivated";
// Reasons of PodsReady = False. The timeouts of Kueue's waitForPodsReady apply to these two alone:
// `timeout` from the admission on, and `recoveryTimeout` from the condition's transition on.
constexpr std::string_view kWaitForStart = "WaitForStart";
constexpr std::string_view kWaitForRecovery = "WaitForRecovery";

PodName NameOf(const Workload& workload) {
  return {workload.namespace_name, workload.name, workload.uid};
}

// What is asked of the queue, as a number: another one needs another Workload.
std::string RequestOf(const LonghaulJob& job) {
  const JobJson request = {job.local_queue,
                           job.minimum,
                           job.desired,
                           job.device_resource,
                           job.devices_per_worker,
                           MemberOf(job.pod_template, "spec")};
  const std::string text = request.dump(-1, ' ', false, JobJson::error_handler_t::replace);
  return fmt::format("{:016x}", Hash64(text, 0));
}

// Kueue counts requests alone: as in the API server, what has a limit and no request, requests the
// limit.
void CompleteRequests(JobJson& containers) {
  for (JobJson& container : containers) {
    const JobJson limits = MemberOf(MemberOf(container, "resources"), "limits");
    for (const auto& [resource, amount] : limits.items()) {
      JobJson& requests = container["resources"]["requests"];
      if (!requests.is_object()) requests = JobJson::object();
      if (!requests.contains(resource)) requests[resource] = amount;
    }
  }
}

// A pod as a set of a Workload.
JobJson PodSet(std::string_view name, uint32_t count, JobJson pod) {
  JobJson& spec = pod["spec"];
  spec.erase("schedulingGates");
  for (const char* containers : {"initContainers", "containers"}) {
    if (spec.contains(containers)) CompleteRequests(spec[containers]);
  }
  return {{"name", name}, {"count", count}, {"template", {{"spec", std::move(spec)}}}};
}

JobJson WorkerSet(const LonghaulJob& job, const PodSettings& settings) {
  JobJson set = PodSet(kWorkerSet, job.desired, WorkerPod(job, settings, 0, 0, {}));
  if (job.minimum < job.desired) set["minCount"] = job.minimum;
  const JobJson& annotations = MemberOf(MemberOf(job.pod_template, "metadata"), "annotations");
  for (const auto& [annotation, field] : kTopologies) {
    const std::string level = TextAt(annotations, annotation);
    if (!level.empty()) set["topologyRequest"] = {{field, level}};
  }
  return set;
}

JobAction CreateAction(const LonghaulJob& job, const PodSettings& settings,
                       const std::optional<PriorityClass>& priority) {
  JobJson spec = {
      {"queueName", job.local_queue},
      {"podSets",
       JobJson::array({PodSet(kControllerSet, 1, ControllerPod(job, settings, 0, "", "")),
                       WorkerSet(job, settings)})}};
  if (priority) {
    const bool own = priority->kind == PriorityKind::kWorkload;
    spec["priority"] = priority->value;
    spec["priorityClassRef"] = {{"group", own ? "kueue.x-k8s.io" : "scheduling.k8s.io"},
                                {"kind", own ? "WorkloadPriorityClass" : "PriorityClass"},
                                {"name", priority->name}};
  }
  JobJson object = {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                    {"kind", "Workload"},
                    {"metadata",
                     {{"name", WorkloadName(job)},
                      {"namespace", job.namespace_name},
                      {"labels", {{kJobLabel, job.name}, {kUidLabel, job.uid}}},
                      {"annotations", {{kRequestAnnotation, RequestOf(job)}}},
                      {"ownerReferences", JobJson::array({OwnerReference(job)})}}},
                    {"spec", std::move(spec)}};
  return CreateWorkload{
      NameOf(job), {job.namespace_name, WorkloadName(job), ""}, std::move(object)};
}

// The conditions of a Workload with other values of some.
class Conditions {
 public:
  Conditions(const Workload& workload, Instant wall)
      : conditions_(workload.conditions.is_array() ? workload.conditions : JobJson::array()),
        time_(ApiTime(wall)) {}

  void Set(std::string_view type, bool is_true, std::string_view reason, std::string_view message) {
    const std::string status = is_true ? "True" : "False";
    JobJson condition = {{"type", type},
                         {"status", status},
                         {"reason", reason},
                         {"message", message},
                         {"lastTransitionTime", time_}};
    for (JobJson& before : conditions_) {
      if (TextAt(before, "type") != type) continue;
      const std::string since = TextAt(before, "lastTransitionTime");
      if (TextAt(before, "status") == status) condition["lastTransitionTime"] = since;
      before = std::move(condition);
      return;
    }
    conditions_.push_back(std::move(condition));
  }
  void Remove(std::string_view type) {
    std::erase_if(conditions_.get_ref<JobJson::array_t&>(),
                  [&](const JobJson& each) { return TextAt(each, "type") == type; });
  }
  JobJson Take() { return std::move(conditions_); }

 private:
  JobJson conditions_;
  const std::string time_;
};

// A list is replaced as a whole by a patch. With the version of the Workload, so that no condition
// is lost that Kueue has written since.
JobAction StatusAction(const LonghaulJob& job, const Workload& workload, JobJson status) {
  return PatchWorkload{
      NameOf(job),
      NameOf(workload),
      {{"metadata", {{"resourceVersion", workload.version}}}, {"status", std::move(status)}}};
}

std::string EvictionReason(const Workload& workload) {
  return workload.eviction_reason.empty() ? "Evicted" : workload.eviction_reason;
}

bool IsDeactivation(std::string_view reason) { return reason.starts_with(kDeactivated); }

// While the Workload is active, Kueue has not acted on its request yet.
void RemoveStaleTarget(const Workload& workload, Conditions& conditions) {
  if (!workload.active) conditions.Remove(kDeactivationTarget);
}

// Gives the quota back after an eviction. One write: Kueue expects no admission without quota, and
// no quota without an admission.
JobAction ReleaseAction(const LonghaulJob& job, const Workload& workload, Instant wall) {
  // A job that Kueue has stopped for another reason does not come back by itself.
  const bool returns =
      workload.eviction_reason == "Preempted" || workload.eviction_reason == "NodeFailures";
  Conditions conditions(workload, wall);
  conditions.Set("QuotaReserved", false, "Pending", workload.eviction_message);
  conditions.Set("Admitted", false, "NoReservation", "the job has stopped");
  const std::string reason = EvictionReason(workload);
  conditions.Set(kRequeued, returns, IsDeactivation(reason) ? kDeactivated : reason,
                 workload.eviction_message);
  RemoveStaleTarget(workload, conditions);
  // Also where it is False already: a WaitForRecovery that stays would count against the next
  // admission.
  if (ConditionIn(workload.conditions, kPodsReady).is_object()) {
    conditions.Set(kPodsReady, false, kWaitForStart, "the job has stopped");
  }
  return StatusAction(job, workload, {{"admission", nullptr}, {"conditions", conditions.Take()}});
}

// Removes what would deactivate a Workload without quota again when it is made active; null where
// there is nothing to remove.
std::optional<JobAction> ReturnAction(const LonghaulJob& job, const Workload& workload,
                                      Instant wall) {
  if (!workload.evicted) return std::nullopt;
  Conditions conditions(workload, wall);
  RemoveStaleTarget(workload, conditions);
  JobJson changed = conditions.Take();
  if (changed == workload.conditions) return std::nullopt;
  return StatusAction(job, workload, {{"conditions", std::move(changed)}});
}

// Requires a workload whose condition differs from `ready`: False means that the job has trained
// since its admission.
JobAction ReadinessAction(const LonghaulJob& job, const Workload& workload, bool ready,
                          Instant wall) {
  const std::string before = TextAt(ConditionIn(workload.conditions, kPodsReady), "reason");
  const std::string_view trains = before == kWaitForRecovery ? "Recovered" : "Started";
  Conditions conditions(workload, wall);
  conditions.Set(kPodsReady, ready, ready ? trains : kWaitForRecovery,
                 ready ? "the job trains" : "the job does not train");
  return StatusAction(job, workload, {{"conditions", conditions.Take()}});
}

JobAction FinishAction(const LonghaulJob& job, const Workload& workload, Instant wall) {
  const bool succeeded = StoredPhase(job) == JobPhase::kSucceeded;
  Conditions conditions(workload, wall);
  conditions.Set("Finished", true, succeeded ? "Succeeded" : "Failed",
                 succeeded ? "the job has succeeded" : "the job has failed");
  return StatusAction(job, workload, {{"conditions", conditions.Take()}});
}

QueueDecision Held(std::string reason, std::string message) {
  QueueDecision decision;
  decision.reason = std::move(reason);
  decision.message = std::move(message);
  return decision;
}

QueueDecision WithoutWorkload(const LonghaulJob& job, const QueueObjects& objects,
                              const PodSettings& settings) {
  const auto priority = objects.PriorityOf(job);
  if (!priority.ok()) return Held("NoPriorityClass", priority.status().message());
  QueueDecision decision = Held("WaitsForQuota", "asks for quota of the queue " + job.local_queue);
  decision.when_stopped = CreateAction(job, settings, *priority);
  return decision;
}

QueueDecision Admitted(const LonghaulJob& job, const Workload& workload,
                       const QueueObjects& objects, Instant wall) {
  QueueDecision decision;
  for (const PodSetAssignment& assignment : workload.assignments) {
    Result<PodPlacement> placement = objects.PlacementOf(assignment);
    if (!placement.ok()) return Held("NoFlavor", placement.status().message());
    if (assignment.name == kWorkerSet) {
      decision.worker = *std::move(placement);
      decision.workers = assignment.count;
      decision.nodes = assignment.nodes;
    } else {
      decision.controller = *std::move(placement);
      if (assignment.nodes.empty()) continue;
      for (const auto& [key, value] : assignment.nodes[0]) decision.controller.labels[key] = value;
    }
  }
  if (decision.workers < job.minimum || decision.workers > job.desired) {
    return Held("NoAssignment", fmt::format("Kueue has admitted {} workers, expected {} to {}",
                                            decision.workers, job.minimum, job.desired));
  }
  decision.runs = true;
  const bool ready = StoredPhase(job) == JobPhase::kRunning;
  if (ready != workload.pods_ready) {
    decision.now = ReadinessAction(job, workload, ready, wall);
  }
  return decision;
}

QueueDecision WithoutQuota(const LonghaulJob& job, const Workload& workload, Instant wall) {
  const std::string wait =
      workload.wait.empty() ? "waits in the queue " + job.local_queue : workload.wait;
  QueueDecision decision = Held("WaitsForQuota", wait);
  if (!workload.active) {
    decision = Held(std::string(kDeactivated),
                    (workload.eviction_message.empty() ? "" : workload.eviction_message + "; ") +
                        "spec.active of the Workload " + workload.name +
                        " is false: set it to true to let the job wait for quota again");
  }
  decision.when_stopped = ReturnAction(job, workload, wall);
  return decision;
}

QueueDecision DecideRun(const LonghaulJob& job, const Workload* workload,
                        const QueueObjects& objects, const PodSettings& settings, Instant wall) {
  if (!objects.served()) {
    return Held("NoKueue", "the label " + std::string(kQueueLabel) +
                               " is set, and the API server has no kueue.x-k8s.io/v1beta2: install "
                               "Kueue, or remove the label");
  }
  if (workload == nullptr) return WithoutWorkload(job, objects, settings);
  if (workload->being_deleted) return Held("WaitsForQuota", "its Workload is being deleted");
  const bool other_priority =
      !job.queue_priority.empty() && job.queue_priority != workload->priority_class;
  const bool changed = workload->request != RequestOf(job) || workload->finished ||
                       (other_priority && !workload->reserved);
  if (changed) {
    QueueDecision decision = Held("Changed", "asks its queue anew: the job has changed");
    decision.when_stopped = DeleteWorkload{NameOf(job), NameOf(*workload)};
    return decision;
  }
  if (workload->evicted && workload->reserved) {
    QueueDecision decision = Held(EvictionReason(*workload), workload->eviction_message);
    decision.when_stopped = ReleaseAction(job, *workload, wall);
    return decision;
  }
  if (workload->admitted) return Admitted(job, *workload, objects, wall);
  return WithoutQuota(job, *workload, wall);
}

}  // namespace

PodPlacement QueueDecision::WorkerAt(uint32_t index) const {
  PodPlacement placement = worker;
  if (index >= nodes.size()) return placement;
  for (const auto& [key, value] : nodes[index]) placement.labels[key] = value;
  return placement;
}

std::string WorkloadName(const LonghaulJob& job) { return std::string(kNamePrefix) + job.name; }

std::string JobKeyOfWorkload(const std::string& namespace_name, const std::string& name) {
  if (!name.starts_with(kNamePrefix)) return "";
  return namespace_name + "/" + name.substr(kNamePrefix.size());
}

QueueDecision DecideQueue(const LonghaulJob& job, const Workload* workload,
                          const QueueObjects& objects, const PodSettings& settings, JobWish wish,
                          Instant wall) {
  const bool in_queue = !job.local_queue.empty();
  if (wish == JobWish::kRun && in_queue) {
    return DecideRun(job, workload, objects, settings, wall);
  }
  QueueDecision decision;
  decision.runs = wish == JobWish::kRun;
  decision.workers = job.desired;
  if (workload == nullptr || workload->being_deleted) return decision;
  if (wish == JobWish::kFinish) {
    if (!workload->finished) decision.when_stopped = FinishAction(job, *workload, wall);
  } else {
    const JobAction remove = DeleteWorkload{NameOf(job), NameOf(*workload)};
    (decision.runs ? decision.now : decision.when_stopped) = remove;
  }
  return decision;
}

LonghaulJob WithWorkers(LonghaulJob job, uint32_t workers) {
  job.desired = workers;
  job.maximum = workers;
  if (job.job.contains("resources") && job.job["resources"].is_object()) {
    job.job["resources"].erase("nodes");
    job.job["resources"].erase("maximum_nodes");
  }
  return job;
}

}  // namespace longhaul::engines::kubernetes
