#include "engines/kubernetes/jobs/pod_templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/hash.h"
#include "engines/kubernetes/scheduling/pod_names.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr int kTokenSeconds = 3'600;
// For the last snapshot of a pod that is deleted.
constexpr int kGraceSeconds = 120;
constexpr int kUser = 65'532;  // of the controller: nobody's
// Every namespace has it.
constexpr const char* kUsualAccount = "default";
constexpr std::array kOurFields = {"nodeName", "restartPolicy", "schedulerName", "schedulingGates"};

std::string Join(std::string_view folder, std::string_view name) {
  return std::string(folder) + "/" + std::string(name);
}

std::string NameOf(const LonghaulJob& job, std::string_view rest, uint32_t life) {
  return job.name + std::string(rest) + "-" + std::to_string(life);
}

JobJson PodLabels(const LonghaulJob& job, std::string_view role, uint32_t life) {
  return {{kJobLabel, job.name}, {kRoleLabel, role}, {kLifeLabel, std::to_string(life)}};
}

JobJson Meta(const LonghaulJob& job, std::string name, JobJson labels, JobJson annotations) {
  annotations[kTemplateAnnotation] = TemplateHash(job);
  return {{"name", std::move(name)},
          {"namespace", job.namespace_name},
          {"labels", std::move(labels)},
          {"annotations", std::move(annotations)},
          {"ownerReferences", JobJson::array({OwnerReference(job)})}};
}

JobJson FieldVariable(const char* name, const char* field) {
  return {{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", field}}}}}};
}

JobJson Mount(const char* name, std::string_view path) {
  return {{"name", name}, {"mountPath", path}};
}

// Annotations of the pod as files, which the kubelet replaces when the annotations change.
JobJson PodVolume(std::string_view first, std::string_view first_annotation,
                  std::string_view second, std::string_view second_annotation) {
  const auto item = [](std::string_view file, std::string_view annotation) {
    return JobJson{
        {"path", file},
        {"fieldRef", {{"fieldPath", "metadata.annotations['" + std::string(annotation) + "']"}}}};
  };
  const JobJson items =
      JobJson::array({item(first, first_annotation), item(second, second_annotation)});
  return {{"name", "longhaul-pod"}, {"downwardAPI", {{"items", items}}}};
}

JobJson EmptyVolume(const char* name) { return {{"name", name}, {"emptyDir", JobJson::object()}}; }

JobJson LeastRights() {
  return {{"allowPrivilegeEscalation", false},
          {"capabilities", {{"drop", JobJson::array({"ALL"})}}},
          {"seccompProfile", {{"type", "RuntimeDefault"}}}};
}

// With limits, so that a namespace with a quota accepts it.
JobJson Resources(const char* cpu, const char* memory, const char* memory_limit) {
  return {{"requests", {{"cpu", cpu}, {"memory", memory}}},
          {"limits", {{"cpu", "2"}, {"memory", memory_limit}}}};
}

JobJson TokenVolume(const LonghaulJob& job) {
  const JobJson token = {
      {"serviceAccountToken",
       {{"audience", AudienceOf(job)}, {"expirationSeconds", kTokenSeconds}, {"path", "token"}}}};
  return {{"name", "longhaul-token"}, {"projected", {{"sources", JobJson::array({token})}}}};
}

// What the user's template has at spec, or an empty object.
JobJson TemplateSpec(const LonghaulJob& job) {
  if (!job.pod_template.is_object()) return JobJson::object();
  const auto found = job.pod_template.find("spec");
  return found == job.pod_template.end() || found->is_null() ? JobJson::object() : *found;
}

Status Expected(const std::string& field, std::string_view want) {
  return InvalidArgument(field + ": expected " + std::string(want));
}

// A member that is absent or null, or has the type.
Status CheckObject(const JobJson& object, const char* name, const std::string& path) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null() || found->is_object()) return {};
  return Expected(path + "." + name, "an object");
}

Status CheckObjects(const JobJson& object, const char* name, const std::string& path) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return {};
  const std::string field = path + "." + name;
  if (!found->is_array()) return Expected(field, "a list of objects");
  for (const JobJson& each : *found) {
    if (!each.is_object()) return Expected(field, "a list of objects");
  }
  return {};
}

Status CheckTexts(const JobJson& object, const char* name, const std::string& path) {
  RETURN_IF_ERROR(CheckObject(object, name, path));
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return {};
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string()) return Expected(path + "." + name + "." + key, "a text");
  }
  return {};
}

// What the operator adds to, in the container of the workers.
Status CheckWorkerContainer(const JobJson& container) {
  const std::string path = "spec.template.spec.containers";
  for (const char* field : {"command", "args"}) {
    if (!container.contains(field)) continue;
    return InvalidArgument(path + ": " + field +
                           " of the worker container: state the command in spec.job");
  }
  for (const char* list : {"env", "volumeMounts"}) {
    RETURN_IF_ERROR(CheckObjects(container, list, path));
  }
  RETURN_IF_ERROR(CheckObject(container, "resources", path));
  const auto resources = container.find("resources");
  if (resources == container.end() || resources->is_null()) return {};
  return CheckObject(*resources, "limits", path + ".resources");
}

// The container of the template in which the workers run: the one of that name, or the only one.
JobJson* WorkerContainer(JobJson& spec) {
  const auto containers = spec.find("containers");
  if (containers == spec.end() || !containers->is_array() || containers->empty()) return nullptr;
  for (JobJson& container : *containers) {
    if (container.is_object() && container.value("name", JobJson()) == kWorkerContainer) {
      return &container;
    }
  }
  JobJson& only = containers->front();
  return containers->size() == 1 && only.is_object() ? &only : nullptr;
}

void Append(JobJson& object, const char* key, std::initializer_list<JobJson> values) {
  JobJson& list = object[key];
  if (!list.is_array()) list = JobJson::array();
  for (const JobJson& value : values) list.push_back(value);
}

void SetDefault(JobJson& object, const char* key, JobJson value) {
  if (!object.contains(key)) object[key] = std::move(value);
}

JobJson ProgramCommand(std::string_view folder, std::initializer_list<std::string> words) {
  JobJson command = JobJson::array({std::string(folder) + "/bin/longhaul", "kube"});
  for (const std::string& word : words) command.push_back(word);
  return command;
}

// The init container that copies the program to where the user's image runs it. Without the owner
// and the times: the folder of the volume is root's, and the container's user is another one.
JobJson InstallContainer(const PodSettings& settings) {
  return {{"name", "install"},
          {"image", settings.image},
          {"command",
           JobJson::array({"cp", "-R", settings.program + "/.", std::string(kProgramFolder)})},
          {"resources", Resources("50m", "64Mi", "256Mi")},
          {"securityContext", LeastRights()},
          {"volumeMounts", JobJson::array({Mount("longhaul-program", kProgramFolder)})}};
}

// The controller pod gets the volumes of the worker pods where their worker container has them, and
// the user of the worker pods, whose files are there.
void ShareStorage(const LonghaulJob& job, JobJson& controller_spec) {
  JobJson workers = TemplateSpec(job);
  const JobJson* container = WorkerContainer(workers);
  if (container == nullptr) return;
  const auto append = [](const JobJson& from, JobJson& to, const char* key) {
    if (!from.contains(key) || !from[key].is_array()) return;
    for (const JobJson& each : from[key]) to[key].push_back(each);
  };
  append(workers, controller_spec, "volumes");
  append(*container, controller_spec["containers"][0], "volumeMounts");
  if (workers.contains("securityContext")) {
    controller_spec["securityContext"] = workers["securityContext"];
  }
}

// Adds what is required of the pod's node. A label that the template states stays.
void Place(const PodPlacement& placement, JobJson& spec) {
  for (const auto& [key, value] : placement.labels) {
    JobJson& labels = spec["nodeSelector"];
    if (!labels.is_object()) labels = JobJson::object();
    SetDefault(labels, key.c_str(), value);
  }
  for (const JobJson& toleration : placement.tolerations) Append(spec, "tolerations", {toleration});
}

void FillWorkerContainer(const LonghaulJob& job, const PodSettings& settings, JobJson& container) {
  container["name"] = kWorkerContainer;
  SetDefault(container, "image", settings.image);
  container["command"] = ProgramCommand(
      kProgramFolder,
      {"agent", "--pod-dir", std::string(kPodFolder), "--token-file", Join(kTokenFolder, "token"),
       "--state-dir", Join(kStateFolder, "agent"), "--node", "$(POD_NAME)", "--address",
       "$(POD_IP)", "--slots", std::to_string(SlotsOf(job))});
  Append(container, "env",
         {FieldVariable("POD_NAME", "metadata.name"), FieldVariable("POD_IP", "status.podIP")});
  Append(container, "volumeMounts",
         {Mount("longhaul-pod", kPodFolder), Mount("longhaul-state", kStateFolder),
          Mount("longhaul-token", kTokenFolder), Mount("longhaul-program", kProgramFolder),
          Mount("longhaul-memory", "/dev/shm")});
  SetDefault(container, "securityContext", LeastRights());
  if (job.devices_per_worker == 0) return;
  container["resources"]["limits"][job.device_resource] = std::to_string(job.devices_per_worker);
}

// Makes the worker one of a gang of its own, which gives way to every other one.
void MarkExtra(const LonghaulJob& job, uint32_t index, JobJson& labels, JobJson& annotations,
               JobJson& spec) {
  const std::string group = std::to_string((index - job.desired) / job.step);
  labels[kExtraLabel] = group;
  labels[kPodGroupLabel] = job.name + "-extra-" + group;
  annotations[kMinMemberAnnotation] = std::to_string(job.step);
  spec["priorityClassName"] = kExtraPriorityClass;
  // The API server derives them from the class.
  spec.erase("priority");
  spec.erase("preemptionPolicy");
}

}  // namespace

JobJson OwnerReference(const LonghaulJob& job) {
  return {{"apiVersion", "longhaul.dev/v1"},
          {"kind", "LonghaulJob"},
          {"name", job.name},
          {"uid", job.uid},
          {"controller", true},
          {"blockOwnerDeletion", true}};
}

ControllerPlace PlaceOf(const JobPod& controller) {
  if (controller.ip.empty() || controller.authority.empty()) return {};
  const bool is_v6 = controller.ip.find(':') != std::string::npos;
  const std::string host = is_v6 ? "[" + controller.ip + "]" : controller.ip;
  return {host + ":" + std::to_string(kAgentPort), controller.authority};
}

std::string AudienceOf(const LonghaulJob& job) { return "longhaul.dev/job/" + job.uid; }

std::string ControllerPodName(const LonghaulJob& job, uint32_t life) {
  return NameOf(job, "-controller", life);
}

std::string WorkerPodName(const LonghaulJob& job, uint32_t index, uint32_t life) {
  return NameOf(job, "-worker-" + std::to_string(index), life);
}

std::string TemplateHash(const LonghaulJob& job) {
  const JobJson made_from = JobJson::array(
      {job.device_resource, job.devices_per_worker, job.run_directory, job.pod_template});
  const std::string text = made_from.dump(-1, ' ', false, JobJson::error_handler_t::replace);
  return fmt::format("{:016x}", Hash64(text, 0));
}

Status CheckPodTemplate(const LonghaulJob& job) {
  if (job.name.size() > kMostJobName || job.name.find('.') != std::string::npos) {
    return InvalidArgument("metadata.name: expected at most " + std::to_string(kMostJobName) +
                           " of a-z, 0-9 and '-': the names of its pods are made from it");
  }
  const std::string path = "spec.template.spec";
  if (job.pod_template.is_object()) {
    RETURN_IF_ERROR(CheckObject(job.pod_template, "metadata", "spec.template"));
    RETURN_IF_ERROR(CheckObject(job.pod_template, "spec", "spec.template"));
    const auto meta = job.pod_template.find("metadata");
    for (const char* texts : {"labels", "annotations"}) {
      if (meta == job.pod_template.end() || meta->is_null()) continue;
      RETURN_IF_ERROR(CheckTexts(*meta, texts, "spec.template.metadata"));
    }
    // Kueue would take each pod for a job of its own.
    if (meta != job.pod_template.end() && meta->is_object() && meta->contains("labels") &&
        (*meta)["labels"].is_object() && (*meta)["labels"].contains(kQueueLabel)) {
      return InvalidArgument("spec.template.metadata.labels: " + std::string(kQueueLabel) +
                             " belongs to metadata.labels of the job");
    }
  }
  JobJson spec = TemplateSpec(job);
  for (const char* object : {"nodeSelector", "securityContext"}) {
    RETURN_IF_ERROR(CheckObject(spec, object, path));
  }
  for (const char* list : {"initContainers", "tolerations", "volumes"}) {
    RETURN_IF_ERROR(CheckObjects(spec, list, path));
  }
  for (const char* field : kOurFields) {
    if (!spec.contains(field)) continue;
    return InvalidArgument("spec.template.spec." + std::string(field) +
                           ": the operator sets it; leave it out");
  }
  if (!spec.contains("containers")) return {};
  const JobJson* container = WorkerContainer(spec);
  if (container == nullptr) {
    return InvalidArgument(
        "spec.template.spec.containers: expected one container, or one named worker");
  }
  return CheckWorkerContainer(*container);
}

JobJson ControllerPod(const LonghaulJob& job, const PodSettings& settings, uint32_t life,
                      const std::string& job_file, const std::string& token_keys,
                      const PodPlacement& placement) {
  const std::string state(kStateFolder);
  const std::string run = job.run_directory.empty() ? state + "/run" : job.run_directory;
  const JobJson mounts =
      JobJson::array({Mount("longhaul-pod", kPodFolder), Mount("longhaul-state", kStateFolder)});
  const JobJson ip = JobJson::array({FieldVariable("POD_IP", "status.podIP")});
  JobJson authority = {
      {"name", kAuthorityContainer},
      {"image", settings.image},
      {"command",
       ProgramCommand(settings.program, {"authority", "--state-dir", state, "--address",
                                         "$(POD_IP)", "--publish", "/dev/termination-log"})},
      {"env", ip},
      {"resources", Resources("50m", "64Mi", "256Mi")},
      {"securityContext", LeastRights()},
      {"volumeMounts", mounts}};
  JobJson controller = {{"name", kControllerContainer},
                        {"image", settings.image},
                        {"command", ProgramCommand(settings.program, {"run-job",
                                                                      "--pod-dir",
                                                                      std::string(kPodFolder),
                                                                      "--state-dir",
                                                                      state,
                                                                      "--run-dir",
                                                                      run,
                                                                      "--address",
                                                                      "$(POD_IP)",
                                                                      "--namespace",
                                                                      job.namespace_name,
                                                                      "--audience",
                                                                      AudienceOf(job),
                                                                      "--worker-prefix",
                                                                      job.name + "-worker-",
                                                                      "--operator",
                                                                      settings.operator_subject,
                                                                      "--nodes",
                                                                      std::to_string(job.maximum),
                                                                      "--awaited",
                                                                      std::to_string(job.minimum),
                                                                      "--slots",
                                                                      std::to_string(SlotsOf(job)),
                                                                      "--publish",
                                                                      "/dev/termination-log"})},
                        {"env", ip},
                        {"resources", Resources("100m", "256Mi", "2Gi")},
                        {"securityContext", LeastRights()},
                        {"volumeMounts", mounts}};
  JobJson spec = {
      {"schedulerName", settings.scheduler_name},
      {"restartPolicy", "OnFailure"},
      {"terminationGracePeriodSeconds", kGraceSeconds},
      {"serviceAccountName", kUsualAccount},
      {"automountServiceAccountToken", false},
      {"enableServiceLinks", false},
      {"securityContext", {{"runAsNonRoot", true}, {"runAsUser", kUser}, {"fsGroup", kUser}}},
      {"initContainers", JobJson::array({authority})},
      {"containers", JobJson::array({controller})},
      {"volumes", JobJson::array({PodVolume(kJobFile, kJobAnnotation, kKeysFile, kKeysAnnotation),
                                  EmptyVolume("longhaul-state")})}};
  if (!job.run_directory.empty()) ShareStorage(job, spec);
  Place(placement, spec);
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", Meta(job, ControllerPodName(job, life), PodLabels(job, "controller", life),
                            {{kJobAnnotation, job_file}, {kKeysAnnotation, token_keys}})},
          {"spec", std::move(spec)}};
}

JobJson WorkerPod(const LonghaulJob& job, const PodSettings& settings, uint32_t index,
                  uint32_t life, const ControllerPlace& controller, const PodPlacement& placement) {
  JobJson spec = TemplateSpec(job);
  if (!spec.contains("containers")) spec["containers"] = JobJson::array({JobJson::object()});
  FillWorkerContainer(job, settings, *WorkerContainer(spec));
  JobJson inits = JobJson::array({InstallContainer(settings)});
  if (spec.contains("initContainers")) {
    for (JobJson& init : spec["initContainers"]) inits.push_back(std::move(init));
  }
  spec["initContainers"] = std::move(inits);
  Append(spec, "volumes",
         {PodVolume(kControllerFile, kControllerAnnotation, kAuthorityFile, kAuthorityAnnotation),
          EmptyVolume("longhaul-state"),
          TokenVolume(job),
          EmptyVolume("longhaul-program"),
          {{"name", "longhaul-memory"}, {"emptyDir", {{"medium", "Memory"}}}}});
  Place(placement, spec);
  spec["schedulerName"] = settings.scheduler_name;
  spec["restartPolicy"] = "OnFailure";
  spec["schedulingGates"] = JobJson::array({{{"name", kGangGate}}});
  SetDefault(spec, "terminationGracePeriodSeconds", kGraceSeconds);
  SetDefault(spec, "serviceAccountName", kUsualAccount);
  SetDefault(spec, "automountServiceAccountToken", false);
  SetDefault(spec, "enableServiceLinks", false);

  JobJson labels = PodLabels(job, "worker", life);
  labels[kIndexLabel] = std::to_string(index);
  labels[kPodGroupLabel] = job.name;
  JobJson annotations = {{kMinMemberAnnotation, std::to_string(job.minimum)},
                         {kControllerAnnotation, controller.address},
                         {kAuthorityAnnotation, controller.authority}};
  if (index >= job.desired) MarkExtra(job, index, labels, annotations, spec);
  const JobJson own =
      job.pod_template.is_object() ? job.pod_template.value("metadata", JobJson()) : JobJson();
  for (const auto& [key, target] : {std::pair{"labels", &labels}, {"annotations", &annotations}}) {
    if (!own.is_object() || !own.contains(key) || !own[key].is_object()) continue;
    for (const auto& [name, value] : own[key].items()) {
      if (!target->contains(name) && name != kExtraLabel) (*target)[name] = value;
    }
  }
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           Meta(job, WorkerPodName(job, index, life), std::move(labels), std::move(annotations))},
          {"spec", std::move(spec)}};
}

}  // namespace longhaul::engines::kubernetes
