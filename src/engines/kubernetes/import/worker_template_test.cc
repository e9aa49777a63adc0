#include "engines/kubernetes/import/worker_template.h"

#include <string>
#include <vector>

#include "engines/kubernetes/import/import_fixture.h"

namespace longhaul::engines::kubernetes {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

struct TranslatedTemplate {
  WorkerTemplate made;
  ImportReport report;
  std::string error;
};

// A pod template in YAML.
TranslatedTemplate TranslateTemplate(const std::string& text) {
  const Result<std::vector<Manifest>> manifests =
      ReadManifests("{apiVersion: v1, kind: A, t: {" + text + "}}", "a.yaml");
  EXPECT_TRUE(manifests.ok()) << manifests.status();
  TranslatedTemplate result;
  Translation translation({"a.yaml", 1, 0, "A", "a"}, result.report);
  PodTemplateSource source;
  source.pod_template = manifests->front().object["t"];
  source.path = "t";
  source.container_names = {"pytorch"};
  source.missing_command = "is missing";
  result.made = TranslatePodTemplate(source, translation);
  result.error = translation.ok() ? "" : translation.status().message();
  return result;
}

// With one container that has `fields`.
TranslatedTemplate TranslateContainer(const std::string& fields, const std::string& pod = "") {
  return TranslateTemplate("spec: {" + pod + "containers: [{image: i, command: [a], " + fields +
                           "}]}");
}

JobJson WorkerOf(const TranslatedTemplate& result) {
  EXPECT_EQ(result.error, "");
  return result.made.pod_template["spec"]["containers"][0];
}

TEST(WorkerTemplate, FieldsOfThePodAreKept) {
  const TranslatedTemplate result = TranslateTemplate(
      "metadata: {labels: {a: b}, annotations: {c: d}}, spec: {nodeSelector: {e: f}, "
      "hostNetwork: true, serviceAccountName: s, initContainers: [{name: load, image: l}], "
      "volumes: [{name: v, emptyDir: {}}], containers: [{name: side, image: s, args: [x]}, "
      "{name: pytorch, image: i, command: [a], imagePullPolicy: Always}]}");
  EXPECT_EQ(result.made.pod_template, JobJson::parse(R"({
      "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
      "spec": {"hostNetwork": true, "nodeSelector": {"e": "f"}, "serviceAccountName": "s",
               "containers": [{"name": "side", "image": "s", "args": ["x"]},
                              {"name": "worker", "image": "i", "imagePullPolicy": "Always"}],
               "initContainers": [{"name": "load", "image": "l"}],
               "volumes": [{"name": "v", "emptyDir": {}}]}})"));
  EXPECT_THAT(result.report.entries(), testing::IsEmpty());
}

TEST(WorkerTemplate, WhatTheOperatorDecidesIsReported) {
  const ImportReport report =
      TranslateContainer("name: x",
                         "restartPolicy: Never, schedulerName: volcano, nodeName: n, "
                         "schedulingGates: [{name: g}], activeDeadlineSeconds: 5, priority: 3, ")
          .report;
  EXPECT_THAT(Paths(report, ImportOutcome::kDropped),
              UnorderedElementsAre("t.spec.nodeName", "t.spec.schedulingGates",
                                   "t.spec.activeDeadlineSeconds", "t.spec.priority"));
  EXPECT_THAT(Paths(report, ImportOutcome::kChanged), ElementsAre("t.spec.schedulerName"));
  EXPECT_THAT(Paths(report, ImportOutcome::kNotNeeded), ElementsAre("t.spec.restartPolicy"));
}

TEST(WorkerTemplate, AcceleratorsBecomeDevices) {
  const struct {
    const char* resources;
    const char* resource;
    int64_t devices;
    const char* rest;
  } kRows[] = {
      {"{limits: {nvidia.com/gpu: 8, cpu: 4}, requests: {nvidia.com/gpu: \"8\"}}", "nvidia.com/gpu",
       8, R"({"limits": {"cpu": 4}})"},
      {"{requests: {amd.com/gpu: 2}}", "amd.com/gpu", 2, "null"},
      {"{limits: {nvidia.com/mig-1g.10gb: 1, rdma/hca: 1}}", "nvidia.com/mig-1g.10gb", 1,
       R"({"limits": {"rdma/hca": 1}})"},
      {"{limits: {nvidia.com/mlnxnics: 1, vpc.amazonaws.com/efa: 4}}", "", 0,
       R"({"limits": {"nvidia.com/mlnxnics": 1, "vpc.amazonaws.com/efa": 4}})"},
      {"{limits: {nvidia.com/gpu: 0, cpu: 1}}", "", 0, R"({"limits": {"cpu": 1}})"},
      {"{limits: {nvidia.com/gpu: \"1k\"}}", "nvidia.com/gpu", 1000, "null"},
      {"{limits: {nvidia.com/gpu: 1024}, claims: [{name: c}]}", "nvidia.com/gpu", 1024,
       R"({"claims": [{"name": "c"}]})"},
  };
  for (const auto& row : kRows) {
    const TranslatedTemplate result =
        TranslateContainer(std::string("resources: ") + row.resources);
    EXPECT_EQ(result.made.device_resource, row.resource) << row.resources;
    EXPECT_EQ(result.made.devices, row.devices) << row.resources;
    EXPECT_EQ(WorkerOf(result).value("resources", JobJson()), JobJson::parse(row.rest));
  }
}

TEST(WorkerTemplate, OfTwoKindsOfAcceleratorsTheSecondStaysAResource) {
  const TranslatedTemplate result =
      TranslateContainer("resources: {limits: {nvidia.com/gpu: 2, amd.com/gpu: 1}}");
  EXPECT_EQ(WorkerOf(result)["resources"]["limits"], JobJson({{"amd.com/gpu", 1}}));
  EXPECT_THAT(Noted(result.report, "t.spec.containers[0].resources.limits[amd.com/gpu]"),
              HasSubstr("changed: stays a resource"));
}

TEST(WorkerTemplate, VariablesOfTheProcessesAreLonghaulsOwn) {
  const TranslatedTemplate result = TranslateContainer(
      "env: [{name: RANK, value: \"0\"}, {name: MASTER_ADDR, value: m}, {name: NCCL_DEBUG, "
      "value: INFO}, {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, "
      "{name: PET_MAX_RESTARTS, value: \"3\"}, {name: K, valueFrom: {secretKeyRef: {name: s, "
      "key: k}}}]");
  EXPECT_EQ(WorkerOf(result)["env"].size(), 2u);
  const std::string env = "t.spec.containers[0].env";
  EXPECT_THAT(Paths(result.report, ImportOutcome::kNotNeeded),
              ElementsAre(env + "[RANK]", env + "[MASTER_ADDR]", env + "[POD_NAME]"));
  EXPECT_THAT(Noted(result.report, env + "[PET_MAX_RESTARTS]"), HasSubstr("dropped: it is an"));
}

TEST(WorkerTemplate, MemoryOfTheOtherOperatorIsReplacedByTheOperators) {
  const TranslatedTemplate result = TranslateContainer(
      "volumeMounts: [{name: shm, mountPath: /dev/shm/}, {name: small, mountPath: /dev/shm}, "
      "{name: both, mountPath: /dev/shm}, {name: both, mountPath: /tmp}]",
      "volumes: [{name: shm, emptyDir: {medium: Memory}}, {name: small, emptyDir: {sizeLimit: "
      "1Gi}}, {name: both, emptyDir: {}}, {name: other, emptyDir: {}}], ");
  EXPECT_EQ(WorkerOf(result)["volumeMounts"],
            JobJson::parse(R"([{"name": "both", "mountPath": "/tmp"}])"));
  EXPECT_EQ(
      result.made.pod_template["spec"]["volumes"],
      JobJson::parse(R"([{"name": "both", "emptyDir": {}}, {"name": "other", "emptyDir": {}}])"));
  EXPECT_THAT(Paths(result.report, ImportOutcome::kDropped),
              ElementsAre("t.spec.volumes[1].emptyDir.sizeLimit"));
}

TEST(WorkerTemplate, MissingImageIsReported) {
  const TranslatedTemplate result = TranslateTemplate("spec: {containers: [{command: [a]}]}");
  EXPECT_THAT(Noted(result.report, "t.spec.containers[0].image"), HasSubstr("dropped: "));
}

TEST(WorkerTemplate, MistakesNameTheField) {
  const struct {
    TranslatedTemplate result;
    const char* want;
  } kRows[] = {
      {TranslateTemplate("spec: {}"), "t.spec.containers: has 0 containers, expected one, or"},
      {TranslateTemplate("spec: {containers: [{name: a}, {name: b}]}"), "one named pytorch"},
      {TranslateTemplate("spec: {containers: [{name: worker}, {name: pytorch, command: [a]}]}"),
       "t.spec.containers[0].name: is 'worker', which is the name of a container of Longhaul's"},
      {TranslateTemplate("spec: {containers: 3}"), "t.spec.containers: is 3, expected a list"},
      {TranslateTemplate("metadata: {labels: {a: 1}}, spec: {containers: [{command: [a]}]}"),
       "t.metadata.labels.a: is 1, expected a text in quotes"},
      {TranslateContainer("name: a", "initContainers: [{name: install}], "),
       "initContainers[0].name: is 'install'"},
      {TranslateContainer("name: a", "volumes: [{name: longhaul-pod}], "),
       "volumes[0].name: is 'longhaul-pod'"},
      {TranslateContainer("volumeMounts: [{name: a, mountPath: /var/run/longhaul/x}]"),
       "volumeMounts[0].mountPath: is '/var/run/longhaul/x', where the operator has its own"},
      {TranslateContainer("volumeMounts: [{name: a}]"), "mountPath: is null, expected a path"},
      {TranslateContainer("resources: {limits: {nvidia.com/gpu: 1025}}"),
       "resources.limits[nvidia.com/gpu]: is 1025, expected a whole number from 1 to 1,024"},
      {TranslateContainer("resources: {limits: {nvidia.com/gpu: 500m}}"), "is '500m', expected a"},
      {TranslateContainer("resources: {limits: {nvidia.com/gpu: -1}}"), "is -1, expected a"},
      {TranslateContainer(
           "resources: {limits: {nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: 1}}"),
       "is 1, and the limit is 2: expected the same number"},
      {TranslateContainer("resources: {limits: {cpu: lots}}"), "is 'lots', expected a quantity"},
      {TranslateContainer("resources: {limits: {cpu: [1]}}"), "is a list, expected a quantity"},
      {TranslateContainer("resources: [1]"), "resources: is a list, expected an object"},
  };
  for (const auto& row : kRows) EXPECT_THAT(row.result.error, HasSubstr(row.want));
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
