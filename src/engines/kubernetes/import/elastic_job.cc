#include "engines/kubernetes/import/elastic_job.h"

#include <string>
#include <utility>

#include "base/text.h"
#include "engines/kubernetes/import/job_draft.h"

namespace longhaul::engines::kubernetes {
namespace {

class ElasticJobTranslator {
 public:
  ElasticJobTranslator(const JobJson& object, Translation& translation)
      : object_(object), translation_(translation) {}

  JobJson Translate() {
    ObjectFields root(object_, "", translation_);
    TakeCommonFields(root, draft_);
    ObjectFields spec(root.TakeObject("spec"), "spec", translation_);
    root.Finish();
    TakeStrategy(spec);
    draft_.suspend = spec.TakeTruth("suspend").value_or(false);
    TakeReplicas(spec.TakeObject("replicaSpecs"), spec.PathOf("replicaSpecs"));
    AddVariables(spec.TakeObject("envs"), spec.PathOf("envs"));
    spec.Finish();
    draft_.pod_template.container_names = {"main"};
    draft_.pod_template.renamed = {{"WORKER_NUM", "NODE_NUM"}, {"WORKER_RANK", "NODE_RANK"}};
    draft_.pod_template.missing_command =
        "is missing, expected a list of texts: write the entry point of the image";
    return MakeLonghaulJob(draft_, translation_);
  }

 private:
  void TakeStrategy(ObjectFields& spec) {
    const std::string strategy = spec.TakeText("distributionStrategy");
    if (!strategy.empty() && strategy != "AllreduceStrategy") {
      translation_.Fail(spec.PathOf("distributionStrategy"),
                        "is " + ShowValue(strategy) +
                            ", expected AllreduceStrategy: Longhaul has no parameter servers");
    }
    const std::string mode = spec.TakeText("optimizeMode");
    if (mode == "manual" || mode == "mannual") {
      spec.NotNeeded("optimizeMode", "Longhaul changes no resources by itself");
    } else {
      spec.Dropped("optimizeMode", "Longhaul does not change the resources of a job by itself");
    }
    spec.Dropped("brainService", "Longhaul does not change the resources of a job by itself");
    spec.Dropped("resourceLimits", "the resources of the pods and workers.max are the limit");
  }

  void TakeReplicas(const JobJson& specs, const std::string& path) {
    ObjectFields fields(specs, path, translation_);
    for (const char* master : {"dlrover-master", "master"}) {
      fields.NotNeeded(master, "the controller of the LonghaulJob has this part");
    }
    for (const char* other : {"ps", "chief", "evaluator"}) {
      if (!fields.Has(other)) continue;
      translation_.Fail(fields.PathOf(other),
                        "a LonghaulJob has workers only, expected no replicas of this type");
    }
    if (!fields.Has("worker")) {
      return translation_.Fail(fields.PathOf("worker"), "is missing, expected an object");
    }
    TakeWorker(fields.TakeObject("worker"), fields.PathOf("worker"));
    fields.Finish();
  }

  void TakeWorker(const JobJson& worker, const std::string& path) {
    ObjectFields fields(worker, path, translation_);
    draft_.desired = {fields.TakeNumber("replicas", 1, kMostImportedWorkers).value_or(1),
                      fields.PathOf("replicas")};
    SetBounds(fields.TakeNumber("minReplicas", 1, kMostImportedWorkers),
              fields.TakeNumber("maxReplicas", 1, kMostImportedWorkers), path, draft_,
              translation_);
    draft_.pod_template.pod_template = fields.TakeObject("template");
    draft_.pod_template.path = fields.PathOf("template");
    if (const auto count = fields.TakeNumber("restartCount", 0, kMostImportedRestarts)) {
      SetRestarts({*count, fields.PathOf("restartCount"),
                   "is max_restarts, which counts the restarts of all processes together", true},
                  draft_, translation_);
    }
    fields.NotNeeded("restartPolicy", "Longhaul restarts processes and replaces pods itself");
    if (fields.TakeTruth("autoScale").value_or(false)) {
      fields.Dropped("autoScale", "Longhaul does not change the resources of a job by itself");
    }
    fields.Dropped("restartTimeout", "Longhaul finds processes that hang by their steps");
    TakePriority(fields);
    fields.NotNeeded("BatchScheduler", "the pods are placed together or not at all");
    fields.Finish();
  }

  // The name of a class of pods, or the share of the pods that has a high one.
  void TakePriority(ObjectFields& fields) {
    const std::string priority = fields.TakeText("priority");
    if (priority.empty()) return;
    if (ParseDouble(priority).ok()) {
      return fields.Dropped("priority", "all pods have the same priority");
    }
    draft_.priority_class = priority;
    draft_.priority_path = fields.PathOf("priority");
  }

  // Variables of all pods, by their names: added to those of the first container, or of main.
  void AddVariables(const JobJson& variables, const std::string& path) {
    if (!variables.is_object() || !translation_.ok()) return;
    JobJson added = JobJson::array();
    for (const auto& [name, value] : variables.items()) {
      JobJson variable = value.is_object() ? value : JobJson::object();
      if (!value.is_object()) {
        return translation_.Fail(PathJoin(path, name), "is " + ShowValue(value) +
                                                           ", expected an object with name and "
                                                           "value");
      }
      if (!variable.contains("name")) variable["name"] = name;
      added.push_back(std::move(variable));
    }
    JobJson& pod = draft_.pod_template.pod_template;
    if (added.empty() || !pod.is_object() || !pod.contains("spec") || !pod["spec"].is_object())
      return;
    JobJson& spec = pod["spec"];
    if (!spec.contains("containers") || !spec["containers"].is_array()) return;
    for (JobJson& container : spec["containers"]) {
      if (!container.is_object()) continue;
      JobJson& env = container["env"];
      if (env.is_null()) env = JobJson::array();
      if (!env.is_array()) continue;
      for (const JobJson& each : added) env.push_back(each);
    }
  }

  const JobJson& object_;
  Translation& translation_;
  JobDraft draft_;
};

}  // namespace

JobJson TranslateElasticJob(const JobJson& object, Translation& translation) {
  return ElasticJobTranslator(object, translation).Translate();
}

}  // namespace longhaul::engines::kubernetes
