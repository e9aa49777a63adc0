#include "engines/kubernetes/jobs/simulation/simulated_job_checks.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include "engines/kubernetes/jobs/simulation/simulated_jobs.h"

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// The operator repeats what was refused after at most 5 minutes, and a pod of a node that does not
// answer is removed after 400 s.
constexpr Duration kRestPods = minutes(9);
// A report is asked for each 2 s, is true for 30 s, and messages take up to 3 s.
constexpr Duration kRestStatus = minutes(6);

bool Lives(const JobPod& pod) { return !pod.being_deleted && !pod.ended(); }

std::map<std::string, Json> ConditionsOf(const Json& job) {
  std::map<std::string, Json> conditions;
  const Json status = job.value("status", Json::object());
  for (const Json& each : status.value("conditions", Json::array())) {
    conditions[each["type"]] = each;
  }
  return conditions;
}

bool IsOver(const Json& job) {
  for (const auto& [type, condition] : ConditionsOf(job)) {
    if (type != "Succeeded" && type != "Failed") continue;
    if (condition["status"] == "True" && condition["reason"] != "InvalidSpec") return true;
  }
  return false;
}

}  // namespace

std::string PhaseOf(const Json& job) {
  const Json status = job.value("status", Json::object());
  return status.value("phase", "");
}

std::string PhaseIn(const JobAction& action) {
  const auto* patch = std::get_if<PatchJob>(&action);
  if (patch == nullptr || !patch->status) return "";
  return " " + patch->patch["status"]["phase"].get<std::string>() + " " +
         patch->patch["status"]["ready"].dump();
}

std::string OwnerOf(const CreateJobPod& create) {
  return create.object["metadata"]["ownerReferences"][0]["uid"];
}

Status CheckStatusChange(const Json& before, const Json& after) {
  const std::string phase = PhaseOf(after);
  const std::map<std::string, Json> old_ones = ConditionsOf(before);
  int held = 0;
  for (const auto& [type, condition] : ConditionsOf(after)) {
    const bool is_true = condition["status"] == "True";
    if (type != "Created" && is_true) {
      ++held;
      if (type != phase) return InternalError(type + " is true in the phase " + phase);
    }
    const auto known = old_ones.find(type);
    if (known == old_ones.end()) continue;
    const bool same_time = known->second["lastTransitionTime"] == condition["lastTransitionTime"];
    if (known->second["status"] == condition["status"] && !same_time) {
      return InternalError("the time of the condition " + type + " has changed without it");
    }
  }
  if (held != 1) return InternalError(std::to_string(held) + " phases are true");
  if (IsOver(before) && phase != PhaseOf(before)) {
    return InternalError("a finished job became " + phase);
  }
  return {};
}

const JobPod* SimulatedJobs::LiveController(const std::string& job_uid) const {
  for (const auto& [key, pod] : seen_pods_) {
    if (pod.owner_uid == job_uid && pod.role == JobPodRole::kController && Lives(pod)) return &pod;
  }
  return nullptr;
}

uint32_t SimulatedJobs::WorkersOf(const LonghaulJob& job) const {
  const auto workload = seen_workloads_.find(job.uid);
  if (job.local_queue.empty() || workload == seen_workloads_.end()) return job.desired;
  for (const PodSetAssignment& assignment : workload->second.assignments) {
    if (assignment.name == kWorkerSet) return std::min(job.desired, assignment.count);
  }
  return job.desired;
}

void SimulatedJobs::CheckAction(const JobAction& action) {
  if (const auto* create = std::get_if<CreateJobPod>(&action)) {
    CheckCreate(*create);
  } else if (const auto* remove = std::get_if<DeleteJobPod>(&action)) {
    CheckTouched(remove->pod);
  } else if (const auto* patch = std::get_if<PatchJobPod>(&action)) {
    CheckTouched(patch->pod);
    if (patch->patch.contains("spec")) CheckGates(patch->pod);
  } else if (const auto* job = std::get_if<PatchJob>(&action)) {
    CheckPatch(*job);
  } else {
    CheckRelease(action);
  }
}

void SimulatedJobs::CheckCreate(const CreateJobPod& create) {
  const std::string name = create.pod.name;
  const Result<JobPod> read = [&] {
    JobJson object = create.object;
    object["metadata"]["uid"] = "new";
    return ReadJobPod(object);
  }();
  if (!read.ok()) return Break(read.status().message());
  unanswered_[name] = read->owner_uid;
  const auto known = seen_jobs_.find("ns/" + read->job);
  if (known == seen_jobs_.end() || known->second.uid != read->owner_uid) {
    return Break(name + " is made for no job");
  }
  const LonghaulJob& job = known->second;
  if (job.being_deleted || job.suspend || IsFinished(job)) {
    return Break(name + " is made for a job that is suspended, finished or deleted");
  }
  if (!job.HasFinalizer()) return Break(name + " is made before the finalizer");
  if (read->template_hash != TemplateHash(job)) Break(name + " is made from another template");
  if (!job.local_queue.empty()) {
    const auto workload = seen_workloads_.find(job.uid);
    const bool admitted = workload != seen_workloads_.end() && workload->second.admitted &&
                          !workload->second.evicted && !workload->second.being_deleted;
    if (!admitted) return Break(name + " is made for a job that its queue has not admitted");
    if (create.object["spec"]["nodeSelector"]["pool"] != "a") {
      Break(name + " is not bound to the nodes of its flavor");
    }
  }
  if (read->role == JobPodRole::kWorker) {
    if (read->extra) {
      CheckExtra(job, *read, create.object);
    } else if (read->index >= WorkersOf(job)) {
      Break(name + " is too much");
    }
    if (!read->gated) Break(name + " has no gate");
    const JobPod* controller = LiveController(job.uid);
    if (controller == nullptr) return Break(name + " is made without a controller");
    if (read->controller != PlaceOf(*controller).address) Break(name + " has no controller");
    if (controller->template_hash != read->template_hash) {
      Break(name + " is made beside a controller from another template");
    }
  }
  for (const auto& [key, pod] : seen_pods_) {
    const bool same =
        pod.owner_uid == job.uid && pod.role == read->role && pod.index == read->index;
    if (!same) continue;
    if (Lives(pod)) Break(name + " is made while " + pod.name + " is live");
    if (read->role == JobPodRole::kWorker || pod.ended()) continue;
    const Instant since = ending_since_.at(pod.uid);
    if (agenda_.now() < since + settings_.controller_patience) {
      Break(name + " is made while " + pod.name + " ends");
    }
  }
}

std::map<uint32_t, const JobPod*> SimulatedJobs::LiveWorkers(const LonghaulJob& job) const {
  std::map<uint32_t, const JobPod*> workers;
  for (const auto& [key, pod] : seen_pods_) {
    const bool is_worker = pod.owner_uid == job.uid && pod.role == JobPodRole::kWorker;
    if (is_worker && Lives(pod)) workers[pod.index] = &pod;
  }
  return workers;
}

void SimulatedJobs::CheckExtra(const LonghaulJob& job, const JobPod& pod, const JobJson& object) {
  if (!job.local_queue.empty()) return Break(pod.name + " is beyond its quota");
  if (pod.index < job.desired || pod.index >= job.maximum) {
    return Break(pod.name + " is not between desired and max");
  }
  const std::map<uint32_t, const JobPod*> workers = LiveWorkers(job);
  const uint32_t group = (pod.index - job.desired) / job.step;
  for (uint32_t index = 0; index < job.desired + group * job.step; ++index) {
    const auto worker = workers.find(index);
    if (worker != workers.end() && !worker->second->node.empty()) continue;
    return Break(pod.name + " is made, and worker " + std::to_string(index) + " has no node");
  }
  const JobJson& meta = object["metadata"];
  const std::string gang = job.name + "-extra-" + std::to_string(group);
  const bool apart = meta["labels"]["scheduling.x-k8s.io/pod-group"] == gang &&
                     meta["annotations"]["longhaul.dev/min-member"] == std::to_string(job.step) &&
                     object["spec"]["priorityClassName"] == kExtraPriorityClass;
  if (!apart) Break(pod.name + " is no gang of its own of low priority");
}

void SimulatedJobs::CheckTouched(const PodName& pod) {
  const auto seen = seen_pods_.find(pod.Key());
  if (seen == seen_pods_.end() || seen->second.uid != pod.uid) {
    return Break(pod.name + " is touched, and was not seen");
  }
  const auto job = seen_jobs_.find("ns/" + seen->second.job);
  if (job == seen_jobs_.end() || job->second.uid != seen->second.owner_uid) {
    Break(pod.name + " is touched, and is not the job's");
  }
}

void SimulatedJobs::CheckGates(const PodName& name) {
  const auto seen = seen_pods_.find(name.Key());
  if (seen == seen_pods_.end()) return;
  const LonghaulJob& job = seen_jobs_.at("ns/" + seen->second.job);
  uint32_t first = 0;
  uint32_t end = WorkersOf(job);
  if (seen->second.extra) {
    first = job.desired + (seen->second.index - job.desired) / job.step * job.step;
    end = first + job.step;
  }
  const std::map<uint32_t, const JobPod*> workers = LiveWorkers(job);
  for (uint32_t index = first; index < end; ++index) {
    const auto worker = workers.find(index);
    if (worker == workers.end()) return Break("the gate of " + name.name + " is removed early");
    if (worker->second->template_hash == TemplateHash(job)) continue;
    Break(worker->second->name + " is from another template");
  }
}

void SimulatedJobs::CheckPatch(const PatchJob& patch) {
  const auto known = seen_jobs_.find(patch.job.Key());
  if (known == seen_jobs_.end() || known->second.uid != patch.job.uid) {
    return Break(patch.job.name + " is patched, and was not seen");
  }
  const LonghaulJob& job = known->second;
  if (patch.status) {
    if (IsFinished(job)) Break(job.name + " has finished, and its status is written");
    return;
  }
  if (!job.being_deleted) return;
  for (const auto& [key, pod] : seen_pods_) {
    if (pod.owner_uid == job.uid) Break(job.name + " loses its finalizer before " + pod.name);
  }
  for (const auto& [pod, owner] : unanswered_) {
    if (owner == job.uid) Break(job.name + " loses its finalizer while " + pod + " is made");
  }
}

// Quota is given back by the end of an admission and of a Workload.
void SimulatedJobs::CheckRelease(const JobAction& action) {
  const auto* patch = std::get_if<PatchWorkload>(&action);
  const auto* remove = std::get_if<DeleteWorkload>(&action);
  if (patch == nullptr && remove == nullptr) return;
  const PodName& name = patch != nullptr ? patch->job : remove->job;
  const auto job = seen_jobs_.find(name.Key());
  if (job == seen_jobs_.end() || job->second.uid != name.uid) {
    return Break("a Workload is touched for a job that was not seen: " + name.name);
  }
  // Out of its queue a job runs without quota.
  if (job->second.local_queue.empty()) return;
  const std::string text = patch != nullptr ? patch->patch.dump() : "";
  const bool releases = patch == nullptr || text.find("Finished") != text.npos ||
                        patch->patch["status"].contains("admission");
  if (!releases) return;
  for (const auto& [key, pod] : seen_pods_) {
    if (pod.owner_uid == name.uid && !pod.ended()) {
      Break(name.name + " gives its quota back while " + pod.name + " exists");
    }
  }
  for (const auto& [pod, owner] : unanswered_) {
    if (owner == name.uid) Break(name.name + " gives its quota back while " + pod + " is made");
  }
}

// `before`: the job, for a change of one.
void SimulatedJobs::CheckStored(const JobAction& action, const Json& before) {
  const auto* patch = std::get_if<PatchJob>(&action);
  if (patch != nullptr && patch->status) {
    const Json* after = Job(patch->job.name);
    if (after == nullptr || before.is_null()) return;
    if (before["metadata"]["uid"] != patch->job.uid) Break("the status of another job is written");
    const Status holds = CheckStatusChange(before, *after);
    if (!holds.ok()) Break(patch->job.name + ": " + holds.message());
  }
  const auto* change = std::get_if<PatchJobPod>(&action);
  if (change == nullptr) return;
  const Json* pod = api_.Find("pods", ObjectName{"ns", change->pod.name});
  if (pod != nullptr && pod->at("metadata")["uid"] != change->pod.uid) {
    Break(change->pod.name + " is another pod, and is patched");
  }
}

// What may be for a moment, and not for long.
void SimulatedJobs::CheckRest() {
  Lasting now;
  if (agenda_.now() >= faults_end_) {
    for (const ObjectName& name : api_.Names("longhauljobs")) CheckRestOf(*Job(name.name), now);
  }
  for (auto& [what, since] : now) {
    const auto before = lasting_.find(what);
    if (before != lasting_.end()) since = before->second;
    const bool of_status = what.find(": status") != what.npos;
    if (agenda_.now() >= since + (of_status ? kRestStatus : kRestPods)) {
      Break(what + ", since " + ToString(since));
    }
  }
  lasting_ = std::move(now);
}

void SimulatedJobs::CheckRestOf(const Json& object, Lasting& now) {
  const Json& spec = object["spec"];
  const std::string name = object["metadata"]["name"];
  const bool in_queue = object["metadata"].value("labels", Json::object()).contains(kQueueLabel);
  const uint32_t admitted = kueue_.Admitted(object["metadata"]["uid"]);
  const bool held = in_queue && admitted == 0;
  const uint32_t wanted = spec["workers"]["desired"];
  const uint32_t desired = in_queue && admitted > 0 ? std::min(admitted, wanted) : wanted;
  const uint32_t most = in_queue ? desired : spec["workers"]["max"].get<uint32_t>();
  const bool suspended = spec.value("suspend", false) || held;
  const SimulatedPlant::Truth truth = plant_.TruthOf(object["metadata"]["uid"]);
  const auto lasts = [&](bool wrong, const std::string& what) {
    if (wrong) now[name + ": " + what] = agenda_.now();
  };
  lasts(object["metadata"].contains("deletionTimestamp"), "it is deleted and remains");
  if (object["metadata"].contains("deletionTimestamp")) return;
  std::set<uint32_t> indices(truth.indices.begin(), truth.indices.end());
  lasts(truth.controllers > 1, "it has two controllers");
  lasts(truth.indices.size() != indices.size(), "it has two workers of one index");
  lasts(!indices.empty() && *indices.rbegin() >= most, "it has too many workers");
  lasts(IsOver(object) && truth.live > 0, "it has finished and has pods");
  lasts(IsOver(object) && admitted > 0, "it has finished and holds quota");
  lasts(spec.value("suspend", false) && admitted > 0, "it is suspended and holds quota");
  if (IsOver(object)) return;
  const Result<LonghaulJob> read = ReadLonghaulJob(JobJson::parse(object.dump()));
  const std::set<std::string> templates = {read.ok() ? TemplateHash(*read) : ""};
  lasts(truth.live > 0 && truth.templates != templates, "its pods are from another template");
  lasts(suspended && truth.pods > 0, "it is suspended and has pods");
  // The status.
  const Json status = object.value("status", Json::object());
  const std::string phase = PhaseOf(object);
  lasts(status.value("desired", 0u) != desired, "status.desired is wrong");
  lasts(status.value("observedGeneration", 0) != object["metadata"]["generation"],
        "status.observedGeneration is wrong");
  lasts(suspended != (phase == "Suspended"), "status.phase is " + phase);
  if (suspended) return;
  lasts(truth.trains && phase != "Running", "status.phase is not Running");
  lasts(!truth.trains && phase == "Running", "status.phase is Running");
  if (!truth.trains) return;
  lasts(truth.live > 0 && truth.indices.size() < most && truth.without_node == 0,
        "it does not grow");
  lasts(status.value("ready", size_t{0}) != truth.connected.size(),
        "status.ready is not the number of connected workers");
  for (const auto& [type, condition] : ConditionsOf(object)) {
    if (type != phase) continue;
    const std::string reason = condition["reason"];
    lasts(reason == "Refused", "status.conditions: it is refused, and it runs");
  }
}

}  // namespace longhaul::engines::kubernetes
