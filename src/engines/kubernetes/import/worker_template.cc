#include "engines/kubernetes/import/worker_template.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/text.h"
#include "engines/kubernetes/import/container_resources.h"
#include "engines/kubernetes/import/object_fields.h"
#include "engines/kubernetes/import/pod_fields.h"
#include "engines/kubernetes/jobs/job_pod.h"
#include "engines/kubernetes/jobs/pod_templates.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr std::string_view kMemoryPath = "/dev/shm";
constexpr std::string_view kOurFolder = "/var/run/longhaul";
constexpr auto kOurVolumes = std::to_array<std::string_view>(
    {"longhaul-pod", "longhaul-state", "longhaul-token", "longhaul-program", "longhaul-memory"});
constexpr size_t kMostWords = 1'000;                  // as in a job file
constexpr const char* kInstallContainer = "install";  // the operator's init container

// What Longhaul sets for each process.
constexpr auto kProcessVariables = std::to_array<std::string_view>(
    {"RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE",
     "MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "NODE_NUM"});
constexpr auto kPodVariables = std::to_array<std::string_view>({"POD_NAME", "POD_IP"});

bool Contains(const auto& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::string NameOfObject(const JobJson& object) {
  const auto found = object.find("name");
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string_view WithoutSlash(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

class TemplateTranslator {
 public:
  TemplateTranslator(const PodTemplateSource& source, Translation& translation)
      : source_(source), translation_(translation) {}

  WorkerTemplate Translate() {
    ObjectFields fields(source_.pod_template, source_.path, translation_);
    JobJson metadata = TranslateMetadata(fields.TakeObject("metadata"), fields.PathOf("metadata"));
    JobJson spec = TranslateSpec(fields.TakeObject("spec"), fields.PathOf("spec"));
    fields.Finish();
    if (!metadata.empty()) result_.pod_template["metadata"] = std::move(metadata);
    result_.pod_template["spec"] = std::move(spec);
    return std::move(result_);
  }

 private:
  JobJson TranslateMetadata(const JobJson& metadata, const std::string& path) {
    JobJson kept = JobJson::object();
    ObjectFields fields(metadata, path, translation_);
    for (const char* name : {"labels", "annotations"}) {
      const JobJson texts = TextMap(fields.TakeObject(name), fields.PathOf(name), translation_);
      if (!texts.empty()) kept[name] = texts;
    }
    fields.NotNeeded("creationTimestamp", "the API server sets it");
    fields.NotNeeded("name", "the operator names the pods");
    fields.Finish();
    return kept;
  }

  JobJson TranslateSpec(const JobJson& spec, const std::string& path) {
    ObjectFields fields(spec, path, translation_);
    JobJson kept = JobJson::object();
    const JobJson& containers = fields.TakeList("containers");
    const JobJson& inits = fields.TakeList("initContainers");
    const JobJson& volumes = fields.TakeList("volumes");
    ReportOperatorFields(fields);
    for (const std::string_view name : KeptPodFields()) {
      const JobJson& value = fields.Take(name);
      if (!value.is_null()) kept[std::string(name)] = value;
    }
    fields.Finish();
    const size_t worker = WorkerIndex(containers, fields.PathOf("containers"));
    JobJson kept_containers = JobJson::array();
    for (size_t i = 0; i < containers.size() && translation_.ok(); ++i) {
      std::string place = PathItem(fields.PathOf("containers"), i);
      if (i == worker && !source_.container_path.empty()) place = source_.container_path;
      kept_containers.push_back(i == worker ? TranslateWorker(containers[i], place)
                                            : TranslateOther(containers[i], place));
    }
    kept["containers"] = std::move(kept_containers);
    JobJson kept_inits = JobJson::array();
    for (size_t i = 0; i < inits.size(); ++i) {
      kept_inits.push_back(TranslateOther(inits[i], PathItem(fields.PathOf("initContainers"), i)));
    }
    if (!kept_inits.empty()) kept["initContainers"] = std::move(kept_inits);
    JobJson kept_volumes = TranslateVolumes(volumes, fields.PathOf("volumes"));
    if (!kept_volumes.empty()) kept["volumes"] = std::move(kept_volumes);
    return kept;
  }

  void ReportOperatorFields(ObjectFields& fields) {
    fields.NotNeeded("restartPolicy",
                     "the operator replaces pods, and Longhaul restarts processes");
    fields.Changed("schedulerName", "the option --scheduler-name of the operator decides");
    fields.Dropped("nodeName", "the scheduler chooses the nodes: use nodeSelector");
    fields.Dropped("schedulingGates", "the operator has a gate of its own");
    fields.Dropped("activeDeadlineSeconds", "the operator would replace a pod that it ends");
    fields.Dropped("priority", "the API server computes it: use priorityClassName");
    fields.Dropped("ephemeralContainers", "they are added to running pods only");
  }

  // Returns the number of containers after an error.
  size_t WorkerIndex(const JobJson& containers, const std::string& path) {
    for (const std::string_view name : source_.container_names) {
      for (size_t i = 0; i < containers.size(); ++i) {
        if (NameOfObject(containers[i]) == name) return i;
      }
    }
    if (containers.size() == 1) return 0;
    std::vector<std::string> names(source_.container_names.begin(), source_.container_names.end());
    translation_.Fail(path, "has " + std::to_string(containers.size()) +
                                " containers, expected one, or one named " + Join(names, " or "));
    return containers.size();
  }

  JobJson TranslateOther(const JobJson& container, const std::string& path) {
    const std::string name = NameOfObject(container);
    if (name == kWorkerContainer || name == kInstallContainer) {
      translation_.Fail(PathJoin(path, "name"), "is '" + name +
                                                    "', which is the name of a container of "
                                                    "Longhaul's: rename it");
    }
    ObjectFields fields(container, path, translation_);
    JobJson kept = JobJson::object();
    for (const std::string_view field : ContainerFields()) {
      const JobJson& value = fields.Take(field);
      if (!value.is_null()) kept[std::string(field)] = value;
    }
    fields.Finish();
    NoteMounts(container);
    return kept;
  }

  void NoteMounts(const JobJson& container) {
    const auto mounts = container.find("volumeMounts");
    if (mounts == container.end() || !mounts->is_array()) return;
    for (const JobJson& mount : *mounts) {
      if (mount.is_object()) mounted_.insert(NameOfObject(mount));
    }
  }

  JobJson TranslateWorker(const JobJson& container, const std::string& path) {
    ObjectFields fields(container, path, translation_);
    JobJson kept = {{"name", kWorkerContainer}};
    fields.Take("name");
    for (const std::string_view field : ContainerFields()) {
      static constexpr auto kTranslated = std::to_array<std::string_view>(
          {"name", "command", "args", "env", "resources", "volumeMounts", "workingDir"});
      if (Contains(kTranslated, field)) continue;
      const JobJson& value = fields.Take(field);
      if (!value.is_null()) kept[std::string(field)] = value;
    }
    if (!fields.Has("image")) {
      translation_.Dropped(fields.PathOf("image"),
                           source_.missing_image +
                               "the operator's own image would be used: set "
                               "the image in spec.template");
    }
    const JobJson& env = fields.TakeList("env");
    TranslateCommandOf(fields, env);
    JobJson variables = TranslateVariables(env, fields.PathOf("env"));
    if (!variables.empty()) kept["env"] = std::move(variables);
    TranslateResources(fields.TakeObject("resources"), fields.PathOf("resources"), kept);
    JobJson mounts =
        TranslateMounts(fields.TakeList("volumeMounts"), fields.PathOf("volumeMounts"));
    if (!mounts.empty()) kept["volumeMounts"] = std::move(mounts);
    result_.working_directory = fields.TakeText("workingDir");
    if (!result_.working_directory.empty()) kept["workingDir"] = result_.working_directory;
    fields.Finish();
    return kept;
  }

  void TranslateCommandOf(ObjectFields& fields, const JobJson& env) {
    ContainerCommand command;
    command.path = source_.command_path.empty() ? fields.PathOf("command") : source_.command_path;
    for (const char* name : {"command", "args"}) {
      const JobJson& words = fields.Take(name);
      const bool texts = words.is_null() ||
                         (words.is_array() && std::ranges::all_of(words, [](const JobJson& word) {
                            return word.is_string();
                          }));
      if (!texts) {
        return translation_.Fail(fields.PathOf(name),
                                 "expected a list of texts (numbers in quotes)");
      }
      if (command.words.empty() && std::string_view(name) == "args" && !words.empty()) {
        return translation_.Fail(command.path,
                                 "is missing, expected the program that args belong to: write the "
                                 "entry point of the image into command");
      }
      for (const JobJson& word : words) command.words.push_back(word.get<std::string>());
    }
    if (command.words.empty()) return translation_.Fail(command.path, source_.missing_command);
    if (command.words.size() > kMostWords) {
      return translation_.Fail(command.path, "has " + std::to_string(command.words.size()) +
                                                 " words with args, expected at most 1,000");
    }
    FillVariables(env, command);
    command.renamed = source_.renamed;
    result_.command = TranslateCommand(command, translation_);
  }

  // The variables that Kubernetes replaces in a command.
  void FillVariables(const JobJson& env, ContainerCommand& command) {
    for (const std::string_view name : kProcessVariables)
      command.variables.at_run_time.emplace(name);
    for (const std::string_view name : kPodVariables) command.variables.at_run_time.emplace(name);
    for (const auto& [theirs, ours] : source_.renamed) command.variables.at_run_time.insert(theirs);
    for (const JobJson& each : env) {
      const std::string name = NameOfObject(each);
      if (command.variables.at_run_time.contains(name)) continue;
      const JobJson value = each.value("value", JobJson());
      const bool known =
          value.is_string() && value.get<std::string>().find("$(") == std::string::npos;
      if (known) command.variables.values[name] = value.get<std::string>();
      if (!known) command.variables.at_run_time.insert(name);
    }
  }

  JobJson TranslateVariables(const JobJson& env, const std::string& path) {
    JobJson kept = JobJson::array();
    LauncherOptions options;
    for (size_t i = 0; i < env.size(); ++i) {
      const std::string name = NameOfObject(env[i]);
      const std::string place = path + "[" + name + "]";
      if (name.empty()) {
        translation_.Fail(PathItem(path, i), "has no name, expected a text");
      } else if (Contains(kProcessVariables, name)) {
        translation_.NotNeeded(place, "Longhaul sets it for each process");
      } else if (Contains(kPodVariables, name)) {
        translation_.NotNeeded(place, "the operator sets it to the pod's own");
      } else if (name.starts_with("PET_")) {
        TranslateLauncherVariableOf(env[i], name, place, options);
      } else {
        kept.push_back(env[i]);
      }
    }
    LauncherOptions& given = result_.command.options;  // by the command line, which comes first
    if (!given.minimum_nodes) {
      given.minimum_nodes = options.minimum_nodes;
      given.maximum_nodes = options.maximum_nodes;
    }
    if (given.processes.empty()) given.processes = options.processes;
    if (!given.max_restarts) given.max_restarts = options.max_restarts;
    if (!given.node_unit) given.node_unit = options.node_unit;
    return kept;
  }

  void TranslateLauncherVariableOf(const JobJson& variable, const std::string& name,
                                   const std::string& place, LauncherOptions& options) {
    const JobJson value = variable.value("value", JobJson());
    if (result_.command.launched && value.is_string() &&
        TranslateLauncherVariable(name, value.get<std::string>(), place, translation_, options)) {
      return;
    }
    translation_.Dropped(place, "it is an option of torchrun, which the job does not start");
  }

  void TranslateResources(const JobJson& resources, const std::string& path, JobJson& container) {
    ContainerResources read = TranslateContainerResources(resources, path, translation_);
    result_.device_resource = read.device_resource;
    result_.devices = read.devices;
    result_.cpus = read.cpus;
    if (!read.rest.empty()) container["resources"] = std::move(read.rest);
  }

  JobJson TranslateMounts(const JobJson& mounts, const std::string& path) {
    JobJson kept = JobJson::array();
    for (size_t i = 0; i < mounts.size(); ++i) {
      const JobJson target = mounts[i].value("mountPath", JobJson());
      const std::string place = PathItem(path, i);
      if (!target.is_string()) {
        translation_.Fail(PathJoin(place, "mountPath"),
                          "is " + ShowValue(target) + ", expected a path");
        continue;
      }
      const std::string_view folder = WithoutSlash(target.get_ref<const std::string&>());
      if (folder == kMemoryPath) {
        memory_volumes_.insert(NameOfObject(mounts[i]));
        translation_.NotNeeded(place, "the operator mounts a volume in memory at /dev/shm");
        continue;
      }
      if (folder == kOurFolder || folder.starts_with(std::string(kOurFolder) + "/")) {
        translation_.Fail(PathJoin(place, "mountPath"),
                          "is " + ShowValue(target) +
                              ", where the operator has its own volumes: "
                              "use another path");
      }
      mounted_.insert(NameOfObject(mounts[i]));
      kept.push_back(mounts[i]);
    }
    return kept;
  }

  JobJson TranslateVolumes(const JobJson& volumes, const std::string& path) {
    JobJson kept = JobJson::array();
    for (size_t i = 0; i < volumes.size(); ++i) {
      const std::string name = NameOfObject(volumes[i]);
      const std::string place = PathItem(path, i);
      if (Contains(kOurVolumes, name)) {
        translation_.Fail(PathJoin(place, "name"),
                          "is '" + name + "', which is a volume of the operator's: rename it");
      }
      if (!memory_volumes_.contains(name) || mounted_.contains(name)) {
        kept.push_back(volumes[i]);
        continue;
      }
      const JobJson folder = volumes[i].value("emptyDir", JobJson());
      if (folder.is_object() && folder.contains("sizeLimit")) {
        translation_.Dropped(PathJoin(place, "emptyDir.sizeLimit"),
                             "the operator's volume at /dev/shm has no limit but the pod's memory");
      } else if (folder.is_object()) {
        translation_.NotNeeded(place, "the operator mounts a volume in memory at /dev/shm");
      } else {
        translation_.Dropped(place, "the operator mounts a volume of its own at /dev/shm");
      }
    }
    return kept;
  }

  const PodTemplateSource& source_;
  Translation& translation_;
  WorkerTemplate result_;
  std::set<std::string> mounted_;         // names of the volumes that containers mount
  std::set<std::string> memory_volumes_;  // of those that the worker mounted at /dev/shm
};

}  // namespace

WorkerTemplate TranslatePodTemplate(const PodTemplateSource& source, Translation& translation) {
  return TemplateTranslator(source, translation).Translate();
}

}  // namespace longhaul::engines::kubernetes
