#include "engines/kubernetes/import/pytorch_job.h"

#include <string>

#include "engines/kubernetes/import/import_fixture.h"

namespace longhaul::engines::kubernetes {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A Worker only, with `spec` beside it, `replica` beside its template, and `pod` and `container` in
// it. All are lines of YAML in braces.
std::string Job(const std::string& spec = "", const std::string& replica = "",
                const std::string& container = "command: [torchrun, a.py]",
                const std::string& pod = "") {
  return "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec: {" + spec +
         (spec.empty() ? "" : ", ") + "pytorchReplicaSpecs: {Worker: {" + replica +
         (replica.empty() ? "" : ", ") + "template: {spec: {" + pod + (pod.empty() ? "" : ", ") +
         "containers: [{name: pytorch, image: i, " + container + "}]}}}}}\n";
}

const std::string kWorker = "spec.pytorchReplicaSpecs.Worker";
const std::string kGpus = "command: [torchrun, a.py], resources: {limits: {nvidia.com/gpu: 8}}";

JobJson SpecOf(const std::string& text) { return Imported(text).jobs[0]["spec"]; }

TEST(PyTorchJob, SmallestJobIsOneWorker) {
  const ImportResult result = Imported(Job("", "", "command: [python, a.py]"));
  EXPECT_EQ(result.jobs[0], JobJson::parse(R"({
      "apiVersion": "longhaul.dev/v1", "kind": "LonghaulJob", "metadata": {"name": "a"},
      "spec": {"workers": {"desired": 1}, "job": {"command": ["python", "a.py"]},
               "template": {"spec": {"containers": [{"name": "worker", "image": "i"}]}}}})"));
  EXPECT_THAT(result.report.entries(), IsEmpty());
}

TEST(PyTorchJob, MasterCountsAsAWorker) {
  const std::string pod =
      "{spec: {containers: [{name: pytorch, image: i, command: [python, a.py]}]}}";
  const ImportResult result = Imported(
      "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\n"
      "spec: {pytorchReplicaSpecs: {master: {template: " +
      pod + "}, WORKER: {replicas: 3, template: " + pod + "}}}");
  EXPECT_EQ(result.jobs[0]["spec"]["workers"], JobJson({{"desired", 4}}));
  EXPECT_THAT(Paths(result.report, ImportOutcome::kDropped), IsEmpty());
}

TEST(PyTorchJob, WhereTheMasterDiffersIsReported) {
  const ImportResult result = Imported(R"(
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a}
spec:
  pytorchReplicaSpecs:
    Master:
      restartPolicy: Never
      template:
        metadata: {labels: {role: first}}
        spec:
          containers:
          - {name: pytorch, image: i, command: [python, a.py, --eval], env: [{name: A, value: b}]}
    Worker:
      template:
        spec:
          nodeSelector: {a: b}
          containers:
          - {name: pytorch, image: i, command: [python, a.py]}
)");
  const std::string master = "spec.pytorchReplicaSpecs.Master";
  EXPECT_THAT(
      Paths(result.report, ImportOutcome::kDropped),
      ElementsAre(master + ".template.metadata", master + ".template.spec.containers[0].command",
                  master + ".template.spec.containers[0].env",
                  master + ".template.spec.nodeSelector", master + ".restartPolicy"));
  EXPECT_EQ(result.jobs[0]["spec"]["job"]["command"], JobJson({"python", "a.py"}));
}

TEST(PyTorchJob, ProcessesOfALauncherFollowFromItThenFromTheSpec) {
  const struct {
    std::string spec;
    std::string container;
    int want;  // processes of each pod; the default of a LonghaulJob is the number of devices
  } kRows[] = {
      {"", kGpus, 8},
      {"nprocPerNode: \"2\"", kGpus, 2},
      {"nprocPerNode: auto", kGpus, 8},
      {"nprocPerNode: gpu", kGpus, 8},
      {"nprocPerNode: cpu", kGpus, 1},
      {"elasticPolicy: {nProcPerNode: 3}", kGpus, 3},
      {"nprocPerNode: \"2\"", "command: [torchrun, --nproc-per-node=4, a.py]", 4},
      {"nprocPerNode: \"2\"",
       "command: [torchrun, a.py], env: [{name: PET_NPROC_PER_NODE, value: \"6\"}]", 6},
      {"", "command: [torchrun, a.py]", 1},
      {"", "command: [python, a.py], resources: {limits: {nvidia.com/gpu: 8}}", 1},
  };
  for (const auto& row : kRows) {
    const JobJson spec = SpecOf(Job(row.spec, "", row.container));
    const int devices = spec.contains("devices") ? spec["devices"]["perWorker"].get<int>() : 1;
    const JobJson resources = spec["job"].value("resources", JobJson::object());
    EXPECT_EQ(resources.value("processes_per_node", devices), row.want)
        << row.spec << " " << row.container;
  }
}

TEST(PyTorchJob, ProcessesThatAreNotKnownOrNotStartedAreReported) {
  EXPECT_THAT(Noted(Imported(Job()).report, "spec.nprocPerNode"),
              HasSubstr("changed: auto is known only in the pod: 1 process"));
  EXPECT_THAT(Noted(Imported(Job("nprocPerNode: \"4\"", "", "command: [python, a.py]")).report,
                    "spec.nprocPerNode"),
              HasSubstr("dropped: the command is not torchrun"));
}

TEST(PyTorchJob, ElasticPolicyBecomesBounds) {
  const struct {
    const char* policy;
    const char* replica;
    const char* want;
  } kRows[] = {
      {"{minReplicas: 2, maxReplicas: 8}", "replicas: 4", R"({"min":2,"desired":4,"max":8})"},
      {"{minReplicas: 2}", "replicas: 2", R"({"desired":2})"},
      {"{maxReplicas: 8}", "replicas: 8", R"({"desired":8})"},
      {"{minReplicas: 2, maxReplicas: 8}", "replicas: 1", R"({"desired":2,"max":8})"},
      {"{minReplicas: 2, maxReplicas: 8}", "replicas: 9", R"({"min":2,"desired":8})"},
      {"{}", "replicas: 3", R"({"desired":3})"},
  };
  for (const auto& row : kRows) {
    const std::string text = Job(std::string("elasticPolicy: ") + row.policy, row.replica);
    EXPECT_EQ(SpecOf(text)["workers"], JobJson::parse(row.want)) << row.policy;
  }
  EXPECT_EQ(Noted(Imported(Job("elasticPolicy: {minReplicas: 2, maxReplicas: 8}")).report,
                  kWorker + ".replicas"),
            "changed: 1 is outside of the bounds: 2");
}

TEST(PyTorchJob, LimitsThemselvesAreAccepted) {
  const JobJson spec =
      SpecOf(Job("runPolicy: {backoffLimit: 1000000}, nprocPerNode: \"1024\"", "replicas: 100000"));
  EXPECT_EQ(spec["workers"]["desired"], 100'000);
  EXPECT_EQ(spec["job"]["max_restarts"], 1'000'000);
  EXPECT_EQ(spec["job"]["resources"]["processes_per_node"], 1'024);
}

TEST(PyTorchJob, NodesOfTheLauncherComeFirst) {
  const JobJson spec = SpecOf(Job("elasticPolicy: {minReplicas: 1, maxReplicas: 9}", "replicas: 4",
                                  "command: [torchrun, --nnodes=2:6, a.py]"));
  EXPECT_EQ(spec["workers"], JobJson::parse(R"({"min":2,"desired":4,"max":6})"));
  const ImportResult other =
      Imported(Job("", "replicas: 4", "command: [torchrun, --nnodes=2, a.py]"));
  EXPECT_EQ(other.jobs[0]["spec"]["workers"], JobJson({{"desired", 4}}));
  EXPECT_THAT(Noted(other.report, kWorker + ".replicas"),
              HasSubstr("the launcher's --nnodes is 2, and there are 4 pods"));
}

TEST(PyTorchJob, RestartsComeFromTheMostSpecificField) {
  const struct {
    const char* spec;
    const char* replica;
    const char* command;
    int want;  // -1: not stated
  } kRows[] = {
      {"", "", "[torchrun, a.py]", -1},
      {"", "restartPolicy: OnFailure", "[torchrun, a.py]", -1},
      {"", "restartPolicy: Never", "[torchrun, a.py]", 0},
      {"runPolicy: {backoffLimit: 4}", "restartPolicy: Never", "[torchrun, a.py]", 4},
      {"runPolicy: {backoffLimit: 4}, elasticPolicy: {maxRestarts: 7}", "", "[torchrun, a.py]", 7},
      {"elasticPolicy: {maxRestarts: 7}", "", "[torchrun, --max-restarts=9, a.py]", 9},
  };
  for (const auto& row : kRows) {
    const JobJson job =
        SpecOf(Job(row.spec, row.replica, std::string("command: ") + row.command))["job"];
    EXPECT_EQ(job.value("max_restarts", -1), row.want) << row.spec << row.replica;
  }
  const ImportReport report =
      Imported(Job("runPolicy: {backoffLimit: 4}, elasticPolicy: {maxRestarts: 7}")).report;
  EXPECT_EQ(Noted(report, "spec.runPolicy.backoffLimit"),
            "dropped: spec.elasticPolicy.maxRestarts is max_restarts");
  EXPECT_EQ(Noted(report, "spec.elasticPolicy.maxRestarts"), "");
}

TEST(PyTorchJob, EveryFieldOfThePoliciesHasAnOutcome) {
  const ImportResult result = Imported(
      Job("runPolicy: {suspend: true, cleanPodPolicy: All, ttlSecondsAfterFinished: 1, "
          "activeDeadlineSeconds: 2, backoffLimit: 3, managedBy: kueue.x-k8s.io/multikueue, "
          "schedulingPolicy: {queue: gold, minAvailable: 2, minResources: {cpu: 1}, "
          "priorityClass: high, scheduleTimeoutSeconds: 5}}, "
          "elasticPolicy: {minReplicas: 1, maxReplicas: 1, rdzvBackend: c10d, rdzvPort: 1, "
          "rdzvHost: h, rdzvId: i, rdzvConf: [{key: a, value: b}], standalone: true, metrics: []}",
          "replicas: 1, restartPolicy: ExitCode"));
  const JobJson& spec = result.jobs[0]["spec"];
  EXPECT_EQ(spec["suspend"], true);
  EXPECT_EQ(spec["queue"], "gold");
  EXPECT_EQ(spec["template"]["spec"]["priorityClassName"], "high");
  EXPECT_THAT(Paths(result.report, ImportOutcome::kDropped),
              testing::UnorderedElementsAre(
                  kWorker + ".restartPolicy", "spec.runPolicy.ttlSecondsAfterFinished",
                  "spec.runPolicy.activeDeadlineSeconds", "spec.runPolicy.managedBy",
                  "spec.runPolicy.schedulingPolicy.minAvailable",
                  "spec.runPolicy.schedulingPolicy.minResources",
                  "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
                  "spec.elasticPolicy.rdzvConf", "spec.elasticPolicy.metrics"));
  EXPECT_THAT(Paths(result.report, ImportOutcome::kChanged),
              testing::UnorderedElementsAre("spec.runPolicy.cleanPodPolicy",
                                            "spec.runPolicy.backoffLimit", "spec.nprocPerNode",
                                            "spec.runPolicy.schedulingPolicy.priorityClass"));
}

TEST(PyTorchJob, QueueThatIsNoLabelIsReported) {
  const ImportResult result = Imported(Job("runPolicy: {schedulingPolicy: {queue: Team_A}}"));
  EXPECT_FALSE(result.jobs[0]["spec"].contains("queue"));
  EXPECT_THAT(Noted(result.report, "spec.runPolicy.schedulingPolicy.queue"),
              HasSubstr("dropped: 'Team_A' is no DNS label"));
}

TEST(PyTorchJob, UnknownFieldsAreReported) {
  const ImportResult result =
      Imported(Job("runPolcy: {a: 1}, elasticPolicy: {minReplica: 2}", "replica: 3",
                   "command: [python, a.py], imgae: x", "volumess: [], nodeselector: {}"));
  EXPECT_THAT(Paths(result.report, ImportOutcome::kDropped),
              testing::UnorderedElementsAre(
                  "spec.runPolcy", "spec.elasticPolicy.minReplica", kWorker + ".replica",
                  kWorker + ".template.spec.volumess", kWorker + ".template.spec.nodeselector",
                  kWorker + ".template.spec.containers[0].imgae"));
}

TEST(PyTorchJob, MistakesNameTheFieldTheValueAndWhatIsExpected) {
  const std::string prefix = "job.yaml: document 1: PyTorchJob a: ";
  const struct {
    std::string text;
    std::string want;
  } kRows[] = {
      {Job("runPolicy: 3"), "spec.runPolicy: is 3, expected an object"},
      {Job("runPolicy: {suspend: \"yes\"}"),
       "spec.runPolicy.suspend: is 'yes', expected true or false"},
      {Job("runPolicy: {backoffLimit: -1}"), "is -1, expected a number from 0 to 1,000,000"},
      {Job("", "replicas: 100001"), ".replicas: is 100001, expected a number from 0 to 100,000"},
      {Job("", "replicas: 0"), "has 0 replicas, expected 1 to 100,000"},
      {Job("", "replicas: 1.5"), "is 1.5, expected a number"},
      {Job("", "replicas: 18446744073709551615"), "is 18446744073709551615, expected a number"},
      {Job("", "restartPolicy: Sometimes"), "is 'Sometimes', expected Always, OnFailure"},
      {Job("elasticPolicy: {minReplicas: 3, maxReplicas: 2}"),
       "the minimum is 3, expected at most the maximum, 2"},
      {Job("nprocPerNode: \"many\""), "spec.nprocPerNode: is 'many', expected auto, gpu, cpu or"},
      {Job("nprocPerNode: \"1025\""), "is '1025', expected auto"},
      {Job("nprocPerNode: {}"), "is an object, expected auto"},
      {Job("", "", "args: [--lr, \"1\"]"),
       "containers[0].command: is missing, expected the program"},
      {Job("", "", "command: [python, 1]"), "expected a list of texts"},
      {Job("", "", "workingDir: /"), "containers[0].command: is missing"},
      {Job("", "", "command: [a], env: [{value: b}]"), "env[0]: has no name"},
      {Job("", "", "command: [a], env: 3"), "env: is 3, expected a list of objects"},
      {"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}",
       "has 0 replicas, expected"},
      {"apiVersion: kubeflow.org/v1beta1\nkind: PyTorchJob\nmetadata: {name: a}",
       "apiVersion: is 'kubeflow.org/v1beta1', expected kubeflow.org/v1 of a PyTorchJob"},
  };
  for (const auto& row : kRows) {
    EXPECT_THAT(ImportError(row.text), AllOf(HasSubstr(prefix), HasSubstr(row.want)));
  }
}

TEST(PyTorchJob, NamesThatALonghaulJobCannotHaveAreErrors) {
  const std::string text = Job();
  const size_t at = text.find("{name: a}");
  for (const char* metadata :
       {"{name: a.b}", "{name: A}", "{name: a-}", "{name: \"\"}", "{generateName: a-}", "{}",
        "{name: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx}"}) {
    std::string changed = text;
    changed.replace(at, 9, metadata);
    EXPECT_THAT(ImportError(changed), HasSubstr("metadata.name: is ")) << metadata;
  }
  std::string longest = text;
  longest.replace(at, 9, "{name: " + std::string(40, 'x') + "}");
  EXPECT_EQ(Imported(longest).jobs.size(), 1u);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
