#include "engines/kubernetes/import/train_job.h"

#include <utility>
#include <vector>

#include "base/text.h"
#include "engines/kubernetes/import/job_draft.h"
#include "engines/kubernetes/import/pod_fields.h"
#include "engines/kubernetes/import/pod_patch.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr const char* kTrainerController = "trainer.kubeflow.org/trainjob-controller";
constexpr const char* kUsualRuntimeKind = "ClusterTrainingRuntime";

std::string TextIn(const JobJson& object, const char* name) {
  const JobJson value = object.is_object() ? object.value(name, JobJson()) : JobJson();
  return value.is_string() ? value.get<std::string>() : "";
}

class TrainJobTranslator {
 public:
  TrainJobTranslator(const JobJson& object, const std::optional<TrainingRuntime>& runtime,
                     Translation& translation)
      : object_(object), runtime_(runtime), translation_(translation) {}

  JobJson Translate() {
    ObjectFields root(object_, "", translation_);
    TakeCommonFields(root, draft_);
    ObjectFields spec(root.TakeObject("spec"), "spec", translation_);
    root.Finish();
    TakeRuntime(spec);
    TakeTrainer(spec.TakeObject("trainer"), spec.PathOf("trainer"));
    TakeInitializer(spec.TakeObject("initializer"), spec.PathOf("initializer"));
    TakePatches(spec.TakeList("runtimePatches"), spec.PathOf("runtimePatches"));
    for (const char* name : {"podTemplateOverrides", "podSpecOverrides"}) {
      TakeOverrides(spec.TakeList(name), spec.PathOf(name));
    }
    draft_.suspend = spec.TakeTruth("suspend").value_or(false);
    spec.Dropped("activeDeadlineSeconds", "a LonghaulJob has no limit of its time");
    if (spec.TakeText("managedBy") == kTrainerController) {
      spec.NotNeeded("managedBy", "the operator of LonghaulJobs runs the job");
    } else {
      spec.Dropped("managedBy", "the operator of LonghaulJobs runs the job");
    }
    draft_.labels = TakeTexts(spec, "labels");
    draft_.annotations = TakeTexts(spec, "annotations");
    spec.Finish();
    return MakeLonghaulJob(draft_, translation_);
  }

 private:
  // Of the JobSet and the Jobs, in older releases.
  JobJson TakeTexts(ObjectFields& spec, const char* name) {
    const JobJson texts = TextMap(spec.TakeObject(name), spec.PathOf(name), translation_);
    if (!texts.empty()) spec.Changed(name, "is part of the metadata of the LonghaulJob");
    return texts;
  }

  void TakeRuntime(ObjectFields& spec) {
    ObjectFields fields(spec.TakeObject("runtimeRef"), spec.PathOf("runtimeRef"), translation_);
    const RuntimeReference reference = RuntimeOf(object_);
    for (const char* name : {"name", "kind", "apiGroup"}) fields.TakeText(name);
    fields.Finish();
    const std::string shown = reference.kind + " " + Printable(reference.name);
    PodTemplateSource& source = draft_.pod_template;
    source.container_names = {"node", "trainer"};
    source.renamed = {{"PET_NNODES", "NODE_NUM"},
                      {"PET_NODE_RANK", "NODE_RANK"},
                      {"PET_MASTER_ADDR", "MASTER_ADDR"},
                      {"PET_MASTER_PORT", "MASTER_PORT"},
                      {"PET_NPROC_PER_NODE", "LOCAL_WORLD_SIZE"}};
    draft_.desired = {1, "spec.trainer.numNodes"};
    draft_.auto_counts_cpus = true;
    draft_.processes = "auto";
    draft_.processes_path = "spec.trainer.numProcPerNode";
    if (!runtime_) {
      translation_.Dropped(
          spec.PathOf("runtimeRef"),
          "what " + shown + " states is not known; add it to the files (kubectl get " +
              Lower(reference.kind) + " " + Printable(reference.name) + " -o yaml)");
      source.pod_template = {{"spec", {{"containers", JobJson::array({{{"name", "node"}}})}}}};
      source.path = "spec.trainer";
      source.container_path = "spec.trainer";
      source.missing_image = "it is in " + shown + ", which is not in the files; ";
      source.missing_command =
          "is missing, and " + shown + " is not in the files: add it, or write the command here";
      return;
    }
    translation_.Changed(spec.PathOf("runtimeRef"), "what " + shown + " states is part of the job");
    source.pod_template = runtime_->pod_template;
    source.path = shown + ": " + runtime_->path;
    source.missing_command =
        "is missing in the TrainJob and in its runtime, expected a list of texts";
    TakeRuntimePolicy(shown);
  }

  static std::string Lower(std::string text) {
    for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    return text;
  }

  void TakeRuntimePolicy(const std::string& shown) {
    if (runtime_->nodes) draft_.desired.value = *runtime_->nodes;
    SetBounds(runtime_->minimum_nodes, runtime_->maximum_nodes,
              shown + ": spec.mlPolicy.torch.elasticPolicy", draft_, translation_);
    // An elastic job of the runtime has no number of its own.
    if (!runtime_->nodes && draft_.minimum) draft_.desired.value = *draft_.minimum;
    if (runtime_->job_set_restarts) {
      SetRestarts({*runtime_->job_set_restarts,
                   shown + ": spec.template.spec.failurePolicy.maxRestarts", "", true},
                  draft_, translation_);
    }
    if (runtime_->max_restarts) {
      SetRestarts({*runtime_->max_restarts,
                   shown + ": spec.mlPolicy.torch.elasticPolicy.maxRestarts", "", false},
                  draft_, translation_);
    }
    draft_.processes = runtime_->processes;
  }

  // The list of containers, in which the one that trains has this index. Makes one if there is
  // none.
  JobJson* Trainer() {
    JobJson& pod = draft_.pod_template.pod_template;
    if (!pod.is_object() || !pod.contains("spec") || !pod["spec"].is_object()) return nullptr;
    JobJson& spec = pod["spec"];
    if (!spec.contains("containers") || !spec["containers"].is_array()) return nullptr;
    JobJson& containers = spec["containers"];
    for (const std::string_view name : draft_.pod_template.container_names) {
      for (trainer_ = 0; trainer_ < containers.size(); ++trainer_) {
        if (TextIn(containers[trainer_], "name") == name) return &containers[trainer_];
      }
    }
    trainer_ = 0;
    return containers.size() == 1 && containers[0].is_object() ? &containers[0] : nullptr;
  }

  void TakeTrainer(const JobJson& trainer, const std::string& path) {
    ObjectFields fields(trainer, path, translation_);
    JobJson* const container = Trainer();
    if (container == nullptr) {
      return translation_.Fail(draft_.pod_template.path,
                               "has no container named node or trainer, and not only one");
    }
    for (const char* name : {"image", "command", "args"}) {
      const JobJson& value = fields.Take(name);
      if (!value.is_null()) (*container)[name] = value;
    }
    if (fields.Has("command") || fields.Has("args")) {
      draft_.pod_template.command_path = fields.PathOf("command");
    }
    const JobJson& env = fields.TakeList("env");
    if (!env.empty()) {
      JobJson& list = (*container)["env"];
      if (!list.is_array()) list = JobJson::array();
      MergeByKey(env, "name", fields.PathOf("env"), list, translation_);
    }
    const JobJson& resources = fields.TakeObject("resourcesPerNode");
    if (!resources.is_null()) (*container)["resources"] = resources;
    if (const auto nodes = fields.TakeNumber("numNodes", 1, kMostImportedWorkers)) {
      draft_.desired.value = *nodes;
    }
    TakeProcesses(fields);
    fields.Finish();
  }

  void TakeProcesses(ObjectFields& fields) {
    const JobJson& value = fields.Take("numProcPerNode");
    if (value.is_null()) return;
    if (!value.is_string() && !value.is_number_integer()) {
      return translation_.Fail(fields.PathOf("numProcPerNode"),
                               "is " + ShowValue(value) + ", expected a number from 1 to 1,024");
    }
    draft_.processes = value.is_string() ? value.get<std::string>() : value.dump();
    draft_.processes_stated = true;
  }

  void TakeInitializer(const JobJson& initializer, const std::string& path) {
    ObjectFields fields(initializer, path, translation_);
    for (const char* name : {"dataset", "model"}) {
      fields.Dropped(name,
                     "a LonghaulJob has no initializer: load it before the job, or in an init "
                     "container of spec.template");
    }
    fields.Finish();
  }

  bool Trains(const std::string& job) const {
    return job == "node" || job == "trainer" || (runtime_ && job == runtime_->job_name);
  }

  void ApplyPatch(const JobJson& patch, const std::string& path) {
    if (Trainer() == nullptr) return;
    ApplyPodPatch(patch, path, trainer_, draft_.pod_template.container_names,
                  draft_.pod_template.pod_template, translation_);
  }

  void TakePatches(const JobJson& patches, const std::string& path) {
    for (size_t i = 0; i < patches.size(); ++i) {
      ObjectFields fields(patches[i], PathItem(path, i), translation_);
      fields.Take("manager");
      fields.NotNeeded("time", "the API server sets it");
      ObjectFields runtime(fields.TakeObject("trainingRuntimeSpec"),
                           fields.PathOf("trainingRuntimeSpec"), translation_);
      ObjectFields job_set(runtime.TakeObject("template"), runtime.PathOf("template"),
                           translation_);
      job_set.Dropped("metadata", "there is no JobSet");
      ObjectFields spec(job_set.TakeObject("spec"), job_set.PathOf("spec"), translation_);
      const JobJson& jobs = spec.TakeList("replicatedJobs");
      for (size_t j = 0; j < jobs.size(); ++j) {
        TakeJobPatch(jobs[j], PathItem(spec.PathOf("replicatedJobs"), j));
      }
      for (ObjectFields* each : {&fields, &runtime, &job_set, &spec}) each->Finish();
    }
  }

  void TakeJobPatch(const JobJson& patch, const std::string& path) {
    ObjectFields fields(patch, path, translation_);
    if (!Trains(fields.TakeText("name"))) {
      return translation_.Dropped(path, "this job does not train: run it before the LonghaulJob");
    }
    ObjectFields job(fields.TakeObject("template"), fields.PathOf("template"), translation_);
    job.Dropped("metadata", "there is no Job");
    ObjectFields spec(job.TakeObject("spec"), job.PathOf("spec"), translation_);
    ApplyPatch(spec.TakeObject("template"), spec.PathOf("template"));
    for (ObjectFields* each : {&fields, &job, &spec}) each->Finish();
  }

  void TakeOverrides(const JobJson& overrides, const std::string& path) {
    for (size_t i = 0; i < overrides.size(); ++i) {
      const std::string place = PathItem(path, i);
      JobJson patch = overrides[i];
      const JobJson targets = patch.value("targetJobs", JobJson());
      bool trains = false;
      for (const JobJson& target : targets) trains = trains || Trains(TextIn(target, "name"));
      if (!targets.is_array() || targets.empty()) {
        translation_.Fail(PathJoin(place, "targetJobs"), "expected a list of objects with a name");
      }
      if (!trains) {
        translation_.Dropped(place, "it is for jobs that do not train");
        continue;
      }
      if (targets.size() > 1) {
        translation_.Changed(PathJoin(place, "targetJobs"), "only the job that trains is left");
      }
      patch.erase("targetJobs");
      ApplyPatch(patch, place);
    }
  }

  const JobJson& object_;
  const std::optional<TrainingRuntime>& runtime_;
  Translation& translation_;
  JobDraft draft_;
  size_t trainer_ = 0;  // the index of the container that trains
};

}  // namespace

RuntimeReference RuntimeOf(const JobJson& train_job) {
  const JobJson spec = train_job.is_object() ? train_job.value("spec", JobJson()) : JobJson();
  const JobJson reference = spec.is_object() ? spec.value("runtimeRef", JobJson()) : JobJson();
  const std::string kind = TextIn(reference, "kind");
  return {kind.empty() ? kUsualRuntimeKind : kind, TextIn(reference, "name")};
}

JobJson TranslateTrainJob(const JobJson& object, const std::optional<TrainingRuntime>& runtime,
                          Translation& translation) {
  return TrainJobTranslator(object, runtime, translation).Translate();
}

}  // namespace longhaul::engines::kubernetes
