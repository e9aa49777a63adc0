#include "engines/kubernetes/import/training_runtime.h"

#include <utility>

#include "engines/kubernetes/import/job_draft.h"
#include "engines/kubernetes/import/object_fields.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr const char* kStepLabel = "trainer.kubeflow.org/trainjob-ancestor-step";

// The step that a template with labels belongs to; empty: none.
std::string StepOf(const JobJson& object) {
  if (!object.is_object()) return "";
  const JobJson metadata = object.value("metadata", JobJson());
  const JobJson labels = metadata.is_object() ? metadata.value("labels", JobJson()) : JobJson();
  const JobJson step = labels.is_object() ? labels.value(kStepLabel, JobJson()) : JobJson();
  return step.is_string() ? step.get<std::string>() : "";
}

class RuntimeReader {
 public:
  RuntimeReader(const JobJson& object, Translation& translation)
      : object_(object), translation_(translation) {}

  TrainingRuntime Read() {
    ObjectFields root(object_, "", translation_);
    for (const char* name : {"apiVersion", "kind", "metadata"}) root.Take(name);
    root.NotNeeded("status", "it is the state of the runtime");
    ObjectFields spec(root.TakeObject("spec"), "spec", translation_);
    root.Finish();
    ReadPolicy(spec.TakeObject("mlPolicy"), spec.PathOf("mlPolicy"));
    ReadGroupPolicy(spec.TakeObject("podGroupPolicy"), spec.PathOf("podGroupPolicy"));
    ReadTemplate(spec.TakeObject("template"), spec.PathOf("template"));
    spec.Finish();
    return std::move(runtime_);
  }

 private:
  void ReadPolicy(const JobJson& policy, const std::string& path) {
    ObjectFields fields(policy, path, translation_);
    runtime_.nodes = fields.TakeNumber("numNodes", 1, kMostImportedWorkers);
    for (const char* other : {"mpi", "flux", "jax", "xgboost"}) {
      fields.Dropped(other, "Longhaul starts the processes of each node itself, as torchrun does");
    }
    const bool has_torch = fields.Has("torch");
    ObjectFields torch(fields.TakeObject("torch"), fields.PathOf("torch"), translation_);
    const JobJson& processes = torch.Take("numProcPerNode");
    if (has_torch) runtime_.processes = "auto";
    if (processes.is_string()) runtime_.processes = processes.get<std::string>();
    if (processes.is_number_integer()) runtime_.processes = processes.dump();
    ObjectFields elastic(torch.TakeObject("elasticPolicy"), torch.PathOf("elasticPolicy"),
                         translation_);
    runtime_.minimum_nodes = elastic.TakeNumber("minNodes", 1, kMostImportedWorkers);
    runtime_.maximum_nodes = elastic.TakeNumber("maxNodes", 1, kMostImportedWorkers);
    runtime_.max_restarts = elastic.TakeNumber("maxRestarts", 0, kMostImportedRestarts);
    elastic.Dropped("metrics", "Longhaul does not change the number of workers by metrics");
    elastic.Finish();
    torch.Dropped("envInjection", "Longhaul sets the variables of the processes that train only");
    torch.Finish();
    fields.Finish();
  }

  void ReadGroupPolicy(const JobJson& policy, const std::string& path) {
    ObjectFields fields(policy, path, translation_);
    ObjectFields group(fields.TakeObject("coscheduling"), fields.PathOf("coscheduling"),
                       translation_);
    group.Dropped("scheduleTimeoutSeconds", "a job waits for its nodes without a limit");
    group.Finish();
    fields.Dropped("volcano",
                   "the pods are placed by Longhaul's scheduler, together or not at all");
    fields.Finish();
  }

  // Of a JobSet.
  void ReadTemplate(const JobJson& job_set, const std::string& path) {
    ObjectFields fields(job_set, path, translation_);
    fields.Dropped("metadata", "there is no JobSet");
    ObjectFields spec(fields.TakeObject("spec"), fields.PathOf("spec"), translation_);
    const JobJson& jobs = spec.TakeList("replicatedJobs");
    const std::string jobs_path = spec.PathOf("replicatedJobs");
    ReadFailurePolicy(spec.TakeObject("failurePolicy"), spec.PathOf("failurePolicy"));
    spec.Finish();
    fields.Finish();
    const size_t trainer = TrainerIndex(jobs);
    for (size_t i = 0; i < jobs.size(); ++i) {
      const std::string place = PathItem(jobs_path, i);
      if (i == trainer) {
        ReadTrainer(jobs[i], place);
      } else {
        translation_.Dropped(place, "this job does not train: run it before the LonghaulJob");
      }
    }
    if (trainer == jobs.size()) {
      translation_.Fail(jobs_path, "has no job with the label " + std::string(kStepLabel) +
                                       ": trainer, and none named node");
    }
  }

  // JobSet restarts all pods together, as Longhaul restarts all processes.
  void ReadFailurePolicy(const JobJson& policy, const std::string& path) {
    ObjectFields fields(policy, path, translation_);
    runtime_.job_set_restarts = fields.TakeNumber("maxRestarts", 0, kMostImportedRestarts);
    fields.NotNeeded("restartStrategy", "Longhaul restarts the processes in their pods");
    fields.Dropped("rules", "Longhaul has no rules about which restarts count");
    fields.Finish();
  }

  static size_t TrainerIndex(const JobJson& jobs) {
    for (size_t i = 0; i < jobs.size(); ++i) {
      const JobJson job = jobs[i].value("template", JobJson());
      const JobJson spec = job.is_object() ? job.value("spec", JobJson()) : JobJson();
      const JobJson pod = spec.is_object() ? spec.value("template", JobJson()) : JobJson();
      if (StepOf(job) == "trainer" || StepOf(pod) == "trainer") return i;
    }
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (jobs[i].value("name", JobJson()) == "node") return i;
    }
    return jobs.size();
  }

  void ReadTrainer(const JobJson& replicated, const std::string& path) {
    ObjectFields fields(replicated, path, translation_);
    runtime_.job_name = fields.TakeText("name");
    const auto copies = fields.TakeNumber("replicas", 0, kMostImportedWorkers);
    if (copies && *copies != 1) {
      translation_.Dropped(fields.PathOf("replicas"), "the number of nodes is numNodes");
    }
    fields.Dropped("dependsOn", "no other job runs before the LonghaulJob");
    fields.NotNeeded("groupName", "there is no JobSet");
    ObjectFields job(fields.TakeObject("template"), fields.PathOf("template"), translation_);
    fields.Finish();
    job.NotNeeded("metadata", "the operator names and labels what it makes");
    ObjectFields spec(job.TakeObject("spec"), job.PathOf("spec"), translation_);
    job.Finish();
    for (const char* name : {"parallelism", "completions", "completionMode"}) {
      spec.NotNeeded(name, "the number of nodes is numNodes");
    }
    for (const char* name : {"backoffLimit", "podFailurePolicy", "podReplacementPolicy"}) {
      spec.Dropped(name, "Longhaul restarts processes and replaces pods itself");
    }
    spec.Dropped("ttlSecondsAfterFinished", "a LonghaulJob stays until it is deleted");
    spec.Dropped("activeDeadlineSeconds", "a LonghaulJob has no limit of its time");
    runtime_.pod_template = spec.TakeObject("template");
    runtime_.path = spec.PathOf("template");
    spec.Finish();
  }

  const JobJson& object_;
  Translation& translation_;
  TrainingRuntime runtime_;
};

}  // namespace

TrainingRuntime ReadTrainingRuntime(const JobJson& object, Translation& translation) {
  return RuntimeReader(object, translation).Read();
}

}  // namespace longhaul::engines::kubernetes
