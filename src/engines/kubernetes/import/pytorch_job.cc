#include "engines/kubernetes/import/pytorch_job.h"

#include <cctype>
#include <string>
#include <utility>

#include "base/text.h"
#include "engines/kubernetes/import/job_checks.h"
#include "engines/kubernetes/import/job_draft.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr const char* kTrainingOperator = "kubeflow.org/training-operator";
constexpr const char* kCountsAll =
    "is max_restarts, which counts the restarts of all processes together";
constexpr const char* kServesRendezvous = "Longhaul serves the rendezvous itself";

struct Replicas {
  int64_t count = 0;
  JobJson pod_template;
  std::string path;
  std::string restart_policy;
};

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Reports where the Master's template is not the Worker's.
void ReportDifferences(const JobJson& master, const JobJson& worker, const std::string& path,
                       Translation& translation) {
  if (master == worker) return;
  const bool objects = master.is_object() && worker.is_object();
  const bool lists = master.is_array() && worker.is_array() && master.size() == worker.size() &&
                     !master.empty() && master.front().is_object();
  if (!objects && !lists) {
    return translation.Dropped(path, "differs from the Worker's, which all pods get");
  }
  for (size_t i = 0; lists && i < master.size(); ++i) {
    ReportDifferences(master[i], worker[i], PathItem(path, i), translation);
  }
  if (lists) return;
  for (const auto& [name, value] : master.items()) {
    const auto found = worker.find(name);
    ReportDifferences(value, found == worker.end() ? JobJson() : *found, PathJoin(path, name),
                      translation);
  }
  for (const auto& [name, value] : worker.items()) {
    if (master.contains(name)) continue;
    ReportDifferences(JobJson(), value, PathJoin(path, name), translation);
  }
}

class PyTorchJobTranslator {
 public:
  PyTorchJobTranslator(const JobJson& object, Translation& translation)
      : object_(object), translation_(translation) {}

  JobJson Translate() {
    ObjectFields root(object_, "", translation_);
    TakeCommonFields(root, draft_);
    ObjectFields spec(root.TakeObject("spec"), "spec", translation_);
    root.Finish();
    TakeReplicas(spec.TakeObject("pytorchReplicaSpecs"), spec.PathOf("pytorchReplicaSpecs"));
    TakeProcesses(spec);
    TakeRunPolicy(spec.TakeObject("runPolicy"), spec.PathOf("runPolicy"));
    TakeElasticPolicy(spec.TakeObject("elasticPolicy"), spec.PathOf("elasticPolicy"));
    spec.Finish();
    draft_.pod_template.container_names = {"pytorch"};
    draft_.pod_template.renamed = {{"PET_NNODES", "NODE_NUM"},
                                   {"PET_NODE_RANK", "NODE_RANK"},
                                   {"PET_MASTER_ADDR", "MASTER_ADDR"},
                                   {"PET_MASTER_PORT", "MASTER_PORT"},
                                   {"PET_NPROC_PER_NODE", "LOCAL_WORLD_SIZE"}};
    draft_.pod_template.missing_command =
        "is missing, expected a list of texts: write the entry point of the image";
    return MakeLonghaulJob(draft_, translation_);
  }

 private:
  void TakeReplicas(const JobJson& specs, const std::string& path) {
    ObjectFields fields(specs, path, translation_);
    Replicas master;
    Replicas worker;
    bool has_master = false;
    bool has_worker = false;
    for (const auto& [name, value] : specs.items()) {
      const bool is_master = Lower(name) == "master";
      if (!is_master && Lower(name) != "worker") continue;
      Replicas& replicas = is_master ? master : worker;
      (is_master ? has_master : has_worker) = true;
      replicas = TakeReplicaSpec(fields.TakeObject(name), fields.PathOf(name));
    }
    fields.Finish();
    if (has_master && master.count != 1) {
      translation_.Fail(master.path + ".replicas", "is " + std::to_string(master.count) +
                                                       ", expected 1: a job has one Master");
    }
    const int64_t count = master.count + worker.count;
    if (count < 1 || count > kMostImportedWorkers) {
      return translation_.Fail(path, "has " + std::to_string(count) +
                                         " replicas, expected 1 to 100,000 of Master and Worker");
    }
    draft_.desired = {count, has_worker ? worker.path + ".replicas" : master.path + ".replicas"};
    if (has_master && has_worker) ReportMaster(master, worker);
    Replicas& used = has_worker ? worker : master;
    draft_.pod_template.pod_template = std::move(used.pod_template);
    draft_.pod_template.path = used.path + ".template";
    TakeRestartPolicy(used);
  }

  void ReportMaster(const Replicas& master, const Replicas& worker) {
    translation_.Changed(master.path,
                         "the Master is one of the workers, of which Longhaul gives "
                         "one rank 0");
    ReportDifferences(master.pod_template, worker.pod_template, master.path + ".template",
                      translation_);
    if (master.restart_policy == worker.restart_policy) return;
    translation_.Dropped(master.path + ".restartPolicy",
                         "differs from the Worker's, which all pods get");
  }

  Replicas TakeReplicaSpec(const JobJson& object, const std::string& path) {
    ObjectFields fields(object, path, translation_);
    Replicas replicas;
    replicas.path = path;
    replicas.count = fields.TakeNumber("replicas", 0, kMostImportedWorkers).value_or(1);
    replicas.pod_template = fields.TakeObject("template");
    replicas.restart_policy = fields.TakeText("restartPolicy");
    fields.Finish();
    return replicas;
  }

  void TakeRestartPolicy(const Replicas& replicas) {
    const std::string& policy = replicas.restart_policy;
    const std::string path = replicas.path + ".restartPolicy";
    if (policy.empty()) return;
    if (policy == "Never") {
      SetRestarts({0, path, "is max_restarts 0: the job fails when a process fails", false}, draft_,
                  translation_);
    } else if (policy == "Always" || policy == "OnFailure") {
      translation_.NotNeeded(path, "Longhaul restarts processes and replaces pods itself");
    } else if (policy == "ExitCode") {
      translation_.Dropped(path, "Longhaul restarts after each exit code but 0");
    } else {
      translation_.Fail(
          path, "is " + ShowValue(policy) + ", expected Always, OnFailure, Never or ExitCode");
    }
  }

  void TakeProcesses(ObjectFields& spec) {
    draft_.processes = "auto";
    draft_.processes_path = spec.PathOf("nprocPerNode");
    const JobJson& value = spec.Take("nprocPerNode");
    if (value.is_null()) return;
    const bool good = value.is_string() || value.is_number_integer();
    if (!good) {
      return translation_.Fail(spec.PathOf("nprocPerNode"),
                               "is " + ShowValue(value) + ", expected auto, gpu, cpu or a number");
    }
    draft_.processes = value.is_string() ? value.get<std::string>() : value.dump();
    draft_.processes_stated = true;
  }

  void TakeRunPolicy(const JobJson& policy, const std::string& path) {
    ObjectFields fields(policy, path, translation_);
    draft_.suspend = fields.TakeTruth("suspend").value_or(false);
    const std::string clean = fields.TakeText("cleanPodPolicy");
    if (!clean.empty()) {
      fields.Changed("cleanPodPolicy",
                     "at its end a job deletes its worker pods, and its controller pod stays for "
                     "its log");
    }
    fields.Dropped("ttlSecondsAfterFinished", "a LonghaulJob stays until it is deleted");
    fields.Dropped("activeDeadlineSeconds", "a LonghaulJob has no limit of its time");
    if (const auto limit = fields.TakeNumber("backoffLimit", 0, kMostImportedRestarts)) {
      SetRestarts({*limit, fields.PathOf("backoffLimit"), kCountsAll, true}, draft_, translation_);
    }
    if (fields.TakeText("managedBy") == kTrainingOperator) {
      fields.NotNeeded("managedBy", "the operator of LonghaulJobs runs the job");
    } else {
      fields.Dropped("managedBy", "the operator of LonghaulJobs runs the job");
    }
    TakeSchedulingPolicy(fields.TakeObject("schedulingPolicy"), fields.PathOf("schedulingPolicy"));
    fields.Finish();
  }

  void TakeSchedulingPolicy(const JobJson& policy, const std::string& path) {
    ObjectFields fields(policy, path, translation_);
    draft_.queue = fields.TakeText("queue");
    if (!draft_.queue.empty() && !IsDnsLabel(draft_.queue)) {
      fields.Dropped("queue",
                     ShowValue(draft_.queue) + " is no DNS label, as spec.queue has to be");
      draft_.queue.clear();
    }
    draft_.priority_class = fields.TakeText("priorityClass");
    draft_.priority_path = fields.PathOf("priorityClass");
    const auto least = fields.TakeNumber("minAvailable", 0, INT32_MAX);
    if (least && *least == draft_.desired.value) {
      fields.NotNeeded("minAvailable", "the pods are placed together or not at all");
    } else {
      fields.Dropped("minAvailable", "workers.min of the pods are placed together or not at all");
    }
    fields.Dropped("minResources", "the resources of the pods are counted instead");
    fields.Dropped("scheduleTimeoutSeconds", "a job waits for its nodes without a limit");
    fields.Finish();
  }

  void TakeElasticPolicy(const JobJson& policy, const std::string& path) {
    ObjectFields fields(policy, path, translation_);
    SetBounds(fields.TakeNumber("minReplicas", 1, kMostImportedWorkers),
              fields.TakeNumber("maxReplicas", 1, kMostImportedWorkers), path, draft_,
              translation_);
    if (const auto restarts = fields.TakeNumber("maxRestarts", 0, kMostImportedRestarts)) {
      SetRestarts({*restarts, fields.PathOf("maxRestarts"), "", false}, draft_, translation_);
    }
    if (const auto processes = fields.TakeNumber("nProcPerNode", 1, kMostImportedProcesses)) {
      if (draft_.processes_stated) {
        fields.Dropped("nProcPerNode", "spec.nprocPerNode comes first");
      } else {
        draft_.processes = std::to_string(*processes);
        draft_.processes_path = fields.PathOf("nProcPerNode");
        draft_.processes_stated = true;
      }
    }
    for (const char* name : {"rdzvBackend", "rdzvPort", "rdzvHost", "rdzvId", "standalone"}) {
      fields.NotNeeded(name, kServesRendezvous);
    }
    fields.Dropped("rdzvConf", std::string(kServesRendezvous) + ", without these time-outs");
    fields.Dropped("metrics", "Longhaul does not change the number of workers by metrics");
    fields.Finish();
  }

  const JobJson& object_;
  Translation& translation_;
  JobDraft draft_;
};

}  // namespace

JobJson TranslatePyTorchJob(const JobJson& object, Translation& translation) {
  return PyTorchJobTranslator(object, translation).Translate();
}

}  // namespace longhaul::engines::kubernetes
