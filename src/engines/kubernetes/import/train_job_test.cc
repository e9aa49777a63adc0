#include "engines/kubernetes/import/train_job.h"

#include <string>

#include "engines/kubernetes/import/import_fixture.h"

namespace longhaul::engines::kubernetes {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::string TrainText(const std::string& trainer, const std::string& spec = "",
                      const std::string& reference = "{name: torch}") {
  return "---\napiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n"
         "metadata: {name: t, namespace: ns}\nspec: {runtimeRef: " +
         reference + ", trainer: {" + trainer + "}" + (spec.empty() ? "" : ", ") + spec + "}\n";
}

std::string RuntimeText(const std::string& policy = "{numNodes: 2, torch: {}}",
                        const std::string& container = "image: i, command: [torchrun, r.py]",
                        const std::string& head =
                            "kind: ClusterTrainingRuntime\n"
                            "metadata: {name: torch}\n") {
  return "---\napiVersion: trainer.kubeflow.org/v1alpha1\n" + head + "spec: {mlPolicy: " + policy +
         ", template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: "
         "{containers: [{name: node, " +
         container + "}]}}}}}]}}}\n";
}

constexpr const char* kCommand = "image: i, command: [torchrun, a.py]";

TEST(TrainJob, WithoutItsRuntimeIsWhatItStates) {
  const ImportResult result = Imported(TrainText(
      "image: i, command: [torchrun, a.py], args: [--x], numNodes: 3, numProcPerNode: 2, "
      "env: [{name: A, value: b}], resourcesPerNode: {limits: {nvidia.com/gpu: 4, cpu: 8}}"));
  EXPECT_EQ(result.jobs[0], JobJson::parse(R"({
      "apiVersion": "longhaul.dev/v1", "kind": "LonghaulJob",
      "metadata": {"name": "t", "namespace": "ns"},
      "spec": {"workers": {"desired": 3}, "devices": {"resource": "nvidia.com/gpu", "perWorker": 4},
               "job": {"command": ["python3", "-u", "a.py", "--x"],
                       "resources": {"processes_per_node": 2}},
               "template": {"spec": {"containers": [{"name": "worker", "image": "i",
                 "env": [{"name": "A", "value": "b"}],
                 "resources": {"limits": {"cpu": 8}}}]}}}})"));
  EXPECT_THAT(Noted(result.report, "spec.runtimeRef"),
              HasSubstr("dropped: what ClusterTrainingRuntime torch states is not known; add it to "
                        "the files (kubectl get clustertrainingruntime torch -o yaml)"));
}

TEST(TrainJob, WithoutACommandNeedsItsRuntime) {
  EXPECT_THAT(ImportError(TrainText("image: i, numNodes: 2")),
              HasSubstr("TrainJob ns/t: spec.trainer.command: is missing, and "
                        "ClusterTrainingRuntime torch is not in the files: add it"));
  EXPECT_EQ(Imported(TrainText("numNodes: 4") + RuntimeText()).jobs[0]["spec"]["job"]["command"],
            JobJson({"python3", "-u", "r.py"}));
}

TEST(TrainJob, ComesBeforeItsRuntime) {
  const ImportResult result = Imported(
      RuntimeText("{numNodes: 2, torch: {numProcPerNode: 3}}",
                  "image: old, command: [python, r.py], args: [--r], env: [{name: A, value: r}, "
                  "{name: B, value: r}], resources: {limits: {nvidia.com/gpu: 8}}") +
      TrainText("image: new, command: [torchrun, a.py], env: [{name: A, value: t}], "
                "resourcesPerNode: {limits: {nvidia.com/gpu: 4}}"));
  const JobJson& spec = result.jobs[0]["spec"];
  EXPECT_EQ(spec["workers"]["desired"], 2);
  EXPECT_EQ(spec["devices"]["perWorker"], 4);
  EXPECT_EQ(spec["job"]["resources"]["processes_per_node"], 3);
  EXPECT_EQ(spec["job"]["command"], JobJson({"python3", "-u", "a.py", "--r"}));
  const JobJson& worker = spec["template"]["spec"]["containers"][0];
  EXPECT_EQ(worker["image"], "new");
  EXPECT_EQ(worker["env"], JobJson::parse(R"([{"name": "A", "value": "t"},
                                              {"name": "B", "value": "r"}])"));
  EXPECT_THAT(Noted(result.report, "spec.runtimeRef"), HasSubstr("changed: "));
}

TEST(TrainJob, RuntimeIsFoundByKindNameAndNamespace) {
  const auto desired = [](const std::string& reference, const std::string& head) {
    const ImportResult result =
        Imported(TrainText(kCommand, "", reference) + RuntimeText("{numNodes: 7}", kCommand, head));
    return result.jobs[0]["spec"]["workers"]["desired"].get<int>();
  };
  const std::string cluster = "kind: ClusterTrainingRuntime\nmetadata: {name: torch}\n";
  const std::string here = "kind: TrainingRuntime\nmetadata: {name: torch, namespace: ns}\n";
  const std::string there = "kind: TrainingRuntime\nmetadata: {name: torch, namespace: other}\n";
  EXPECT_EQ(desired("{name: torch}", cluster), 7);
  EXPECT_EQ(desired("{name: torch, kind: TrainingRuntime}", here), 7);
  EXPECT_EQ(desired("{name: torch, kind: TrainingRuntime}", there), 1);
  EXPECT_EQ(desired("{name: torch}", here), 1);
  EXPECT_EQ(desired("{name: other}", cluster), 1);
}

TEST(TrainJob, AutoMeansTheCpusWhereThereIsNoGpu) {
  const JobJson cpus =
      Imported(TrainText(std::string(kCommand) + ", resourcesPerNode: {limits: {cpu: 2500m}}"))
          .jobs[0]["spec"]["job"];
  EXPECT_EQ(cpus["resources"]["processes_per_node"], 3);
}

TEST(TrainJob, ElasticPolicyOfTheRuntimeBecomesBounds) {
  const JobJson spec =
      Imported(TrainText(kCommand) +
               RuntimeText("{torch: {elasticPolicy: {minNodes: 2, maxNodes: 5, maxRestarts: 6}}}"))
          .jobs[0]["spec"];
  EXPECT_EQ(spec["workers"], JobJson::parse(R"({"desired": 2, "max": 5})"));
  EXPECT_EQ(spec["job"]["max_restarts"], 6);
}

TEST(TrainJob, RestartsOfTheJobSetAreThoseOfTheJob) {
  const auto imported = [](const std::string& policy, const std::string& elastic) {
    return Imported(TrainText(kCommand) + R"(---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec:
  mlPolicy: {torch: {)" +
                    elastic + R"(}}
  template:
    spec:
      failurePolicy: )" +
                    policy + R"(
      replicatedJobs:
      - name: node
        template:
          spec:
            podFailurePolicy: {rules: []}
            template: {spec: {containers: [{name: node, image: i}]}}
)");
  };
  const std::string path = "spec.template.spec.failurePolicy";
  const ImportResult result =
      imported("{maxRestarts: 10, restartStrategy: Recreate, rules: [{name: a}]}", "");
  EXPECT_EQ(result.jobs[0]["spec"]["job"]["max_restarts"], 10);
  EXPECT_EQ(Noted(result.report, path + ".maxRestarts"), "");
  EXPECT_THAT(Noted(result.report, path + ".restartStrategy"), HasSubstr("not needed: "));
  EXPECT_EQ(Noted(result.report, path + ".rules"),
            "dropped: Longhaul has no rules about which restarts count");
  EXPECT_THAT(
      Noted(result.report, "spec.template.spec.replicatedJobs[0].template.spec.podFailurePolicy"),
      HasSubstr("dropped: Longhaul restarts processes"));
  // Those of torchrun come first, and the others are reported.
  const ImportResult both = imported("{maxRestarts: 10}", "elasticPolicy: {maxRestarts: 3}");
  EXPECT_EQ(both.jobs[0]["spec"]["job"]["max_restarts"], 3);
  EXPECT_THAT(Paths(both.report, ImportOutcome::kDropped),
              testing::Contains(HasSubstr(path + ".maxRestarts")));
}

TEST(TrainJob, WhatTheRuntimeHasBesideIsReportedWithItsName) {
  const std::string text = R"(
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec:
  mlPolicy: {mpi: {numProcPerNode: 2}, other: 3}
  podGroupPolicy: {coscheduling: {scheduleTimeoutSeconds: 5}, volcano: {networkTopology: {}}}
  template:
    metadata: {labels: {a: b}}
    spec:
      network: {enableDNSHostnames: true}
      replicatedJobs:
      - {name: dataset-initializer, template: {}}
      - name: main
        replicas: 2
        dependsOn: [{name: dataset-initializer, status: Complete}]
        template:
          spec:
            backoffLimit: 0
            template:
              metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
              spec: {containers: [{name: only, image: i, command: [python, a.py]}]}
)" + TrainText("numNodes: 2");
  const ImportReport report = Imported(text).report;
  std::vector<std::string> dropped;
  for (const ImportEntry& entry : report.entries()) {
    if (entry.origin.kind != "ClusterTrainingRuntime") continue;
    EXPECT_EQ(entry.origin.name, "torch");
    if (entry.outcome == ImportOutcome::kDropped) dropped.push_back(entry.path);
  }
  const std::string jobs = "spec.template.spec.replicatedJobs";
  EXPECT_THAT(dropped, UnorderedElementsAre(
                           "spec.mlPolicy.mpi", "spec.mlPolicy.other",
                           "spec.podGroupPolicy.coscheduling.scheduleTimeoutSeconds",
                           "spec.podGroupPolicy.volcano", "spec.template.metadata",
                           "spec.template.spec.network", jobs + "[0]", jobs + "[1].replicas",
                           jobs + "[1].dependsOn", jobs + "[1].template.spec.backoffLimit"));
}

TEST(TrainJob, PatchesOfBothReleasesChangeThePods) {
  const std::string pod =
      "metadata: {labels: {team: a}}, spec: {nodeSelector: {g: h}, serviceAccountName: s, "
      "volumes: [{name: out, emptyDir: {}}], containers: [{name: node, volumeMounts: "
      "[{name: out, mountPath: /out}]}], schedulingGates: [{name: x}]}";
  const std::string patches =
      "runtimePatches: [{manager: m, trainingRuntimeSpec: {template: {spec: {replicatedJobs: "
      "[{name: node, template: {spec: {template: {" +
      pod + "}}}}, {name: dataset-initializer}]}}}}]";
  const std::string overrides = "podTemplateOverrides: [{targetJobs: [{name: node}], " + pod +
                                "}, {targetJobs: [{name: model-initializer}]}]";
  for (const std::string& spec : {patches, overrides}) {
    for (const std::string& runtime : {std::string(), RuntimeText()}) {
      const ImportResult result = Imported(TrainText(kCommand, spec) + runtime);
      EXPECT_EQ(result.jobs[0]["spec"]["template"], JobJson::parse(R"({
          "metadata": {"labels": {"team": "a"}},
          "spec": {"nodeSelector": {"g": "h"}, "serviceAccountName": "s",
            "containers": [{"name": "worker", "image": "i",
                            "volumeMounts": [{"name": "out", "mountPath": "/out"}]}],
            "volumes": [{"name": "out", "emptyDir": {}}]}})"));
      const std::vector<std::string> dropped = Paths(result.report, ImportOutcome::kDropped);
      EXPECT_THAT(dropped, testing::Contains(HasSubstr("spec.schedulingGates")));
      EXPECT_THAT(dropped, testing::Contains(testing::EndsWith("s[1]")));
    }
  }
}

TEST(TrainJob, UnknownContainersOfPatchesAreReported) {
  const ImportResult result =
      Imported(TrainText(kCommand,
                         "podTemplateOverrides: [{targetJobs: [{name: node}], spec: {containers: "
                         "[{name: side, env: []}], initContainers: [{name: load}]}}]"));
  EXPECT_THAT(Noted(result.report, "spec.podTemplateOverrides[0].spec.containers[0]"),
              HasSubstr("dropped: the runtime's container 'side' is not known"));
  EXPECT_THAT(Noted(result.report, "spec.podTemplateOverrides[0].spec.initContainers[0]"),
              HasSubstr("dropped: "));
}

TEST(TrainJob, OtherFieldsHaveAnOutcome) {
  const ImportResult result = Imported(TrainText(
      kCommand,
      "suspend: true, managedBy: kueue.x-k8s.io/multikueue, activeDeadlineSeconds: 5, "
      "labels: {a: b}, annotations: {c: d}, initializer: {dataset: {storageUri: \"s3://a/b\"}, "
      "model: {storageUri: \"hf://c\"}}, modelConfig: {}"));
  EXPECT_EQ(result.jobs[0]["spec"]["suspend"], true);
  EXPECT_EQ(result.jobs[0]["metadata"]["labels"], JobJson({{"a", "b"}}));
  EXPECT_EQ(result.jobs[0]["metadata"]["annotations"], JobJson({{"c", "d"}}));
  EXPECT_THAT(Paths(result.report, ImportOutcome::kDropped),
              UnorderedElementsAre("spec.runtimeRef", "spec.managedBy",
                                   "spec.activeDeadlineSeconds", "spec.initializer.dataset",
                                   "spec.initializer.model", "spec.modelConfig"));
}

TEST(TrainJob, MistakesNameTheField) {
  const struct {
    std::string text;
    const char* want;
  } kRows[] = {
      {TrainText("image: i, command: [a], numNodes: 0"),
       "spec.trainer.numNodes: is 0, expected a number from 1 to 100,000"},
      {TrainText("image: i, command: [torchrun, a.py], numProcPerNode: 0"),
       "spec.trainer.numProcPerNode: is '0', expected auto, gpu, cpu or a number"},
      {TrainText("image: i, command: [a], resourcesPerNode: 3"),
       "resourcesPerNode: is 3, expected"},
      {TrainText("image: i, command: a"), "spec.trainer.command: expected a list of texts"},
      {TrainText(kCommand, "podTemplateOverrides: [{}]"),
       "podTemplateOverrides[0].targetJobs: expected a list"},
      {TrainText(kCommand) + RuntimeText("3"),
       "job.yaml: document 2: ClusterTrainingRuntime torch: spec.mlPolicy: is 3, expected an "
       "object"},
      {TrainText(kCommand) +
           "---\napiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\n"
           "metadata: {name: torch}\nspec: {template: {spec: {replicatedJobs: [{name: x}]}}}\n",
       "replicatedJobs: has no job with the label trainer.kubeflow.org/trainjob-ancestor-step"},
  };
  for (const auto& row : kRows) EXPECT_THAT(ImportError(row.text), HasSubstr(row.want));
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
