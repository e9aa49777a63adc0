#include "engines/kubernetes/import/elastic_job.h"

#include <string>

#include "engines/kubernetes/import/import_fixture.h"

namespace longhaul::engines::kubernetes {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

const std::string kWorkerSpec = "spec.replicaSpecs.worker";

std::string ElasticText(const std::string& spec, const std::string& worker,
                        const std::string& command = "[dlrover-run, --nnodes=$(WORKER_NUM), a.py]",
                        const std::string& others = "") {
  return "apiVersion: elastic.iml.github.io/v1alpha1\nkind: ElasticJob\nmetadata: {name: e}\n"
         "spec: {" +
         spec + (spec.empty() ? "" : ", ") + "replicaSpecs: {" + others + "worker: {" + worker +
         (worker.empty() ? "" : ", ") +
         "template: {spec: {containers: [{name: main, image: i, command: " + command + "}]}}}}}\n";
}

JobJson ElasticSpec(const std::string& text) { return Imported(text).jobs[0]["spec"]; }

TEST(ElasticJob, NodeUnitIsTheStepOfTheWorkers) {
  const struct {
    const char* worker;
    const char* command;
    const char* want;
  } kRows[] = {
      {"replicas: 4", "[dlrover-run, --node_unit=2, a.py]", R"({"desired":4,"step":2})"},
      {"replicas: 5", "[dlrover-run, --node-unit, \"2\", a.py]", R"({"desired":4,"step":2})"},
      {"replicas: 8", "[dlrover-run, --nnodes=3:9, --node_unit=4, a.py]",
       R"({"min":4,"desired":8,"step":4})"},
      {"replicas: 8", "[dlrover-run, \"--nnodes=2:$(WORKER_NUM)\", a.py]",
       R"({"min":2,"desired":8})"},
      {"replicas: 6, minReplicas: 2, maxReplicas: 8", "[dlrover-run, a.py]",
       R"({"min":2,"desired":6,"max":8})"},
      {"", "[python, a.py]", R"({"desired":1})"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(ElasticSpec(ElasticText("", row.worker, row.command))["workers"],
              JobJson::parse(row.want))
        << row.command;
  }
}

TEST(ElasticJob, RoundedNumbersAreReported) {
  EXPECT_EQ(
      Noted(Imported(ElasticText("", "replicas: 5", "[dlrover-run, --node_unit=2, a.py]")).report,
            kWorkerSpec + ".replicas"),
      "changed: the numbers of pods are rounded to multiples of node_unit, 2");
  EXPECT_THAT(ImportError(ElasticText("", "replicas: 3", "[dlrover-run, --node_unit=4, a.py]")),
              HasSubstr(kWorkerSpec + ".replicas: is 3, and node_unit is 4"));
}

TEST(ElasticJob, EveryFieldHasAnOutcome) {
  const ImportResult result = Imported(ElasticText(
      "distributionStrategy: AllreduceStrategy, optimizeMode: single-job, brainService: b, "
      "resourceLimits: {cpu: \"6\"}, suspend: true, envs: {A: {name: A, value: b}}, enable: true",
      "replicas: 2, restartCount: 3, autoScale: true, restartTimeout: 5, priority: high, "
      "BatchScheduler: volcano, restartPolicy: Never",
      "[dlrover-run, --nnodes=$(WORKER_NUM), --network-check, --accelerator=nvidia.com/gpu, a.py]",
      "dlrover-master: {replicas: 1}, "));
  const JobJson& spec = result.jobs[0]["spec"];
  EXPECT_EQ(spec["suspend"], true);
  EXPECT_EQ(spec["job"], JobJson::parse(R"({"command": ["python3", "-u", "a.py"],
                                            "max_restarts": 3})"));
  EXPECT_EQ(spec["template"]["spec"]["containers"][0]["env"],
            JobJson::parse(R"([{"name": "A", "value": "b"}])"));
  EXPECT_EQ(spec["template"]["spec"]["priorityClassName"], "high");
  const std::string command = kWorkerSpec + ".template.spec.containers[0].command";
  EXPECT_THAT(Paths(result.report, ImportOutcome::kDropped),
              UnorderedElementsAre("spec.optimizeMode", "spec.brainService", "spec.resourceLimits",
                                   "spec.enable", kWorkerSpec + ".autoScale",
                                   kWorkerSpec + ".restartTimeout", command + " --network-check"));
  EXPECT_THAT(Paths(result.report, ImportOutcome::kChanged),
              UnorderedElementsAre(kWorkerSpec + ".restartCount", kWorkerSpec + ".priority",
                                   command + " --nnodes"));
  EXPECT_THAT(
      Paths(result.report, ImportOutcome::kNotNeeded),
      UnorderedElementsAre("spec.replicaSpecs.dlrover-master", kWorkerSpec + ".BatchScheduler",
                           kWorkerSpec + ".restartPolicy", command + " --accelerator"));
}

TEST(ElasticJob, RestartsOfTheLauncherComeFirst) {
  const ImportResult result =
      Imported(ElasticText("", "restartCount: 3", "[dlrover-run, --max_restarts=9, a.py]"));
  EXPECT_EQ(result.jobs[0]["spec"]["job"]["max_restarts"], 9);
  EXPECT_THAT(Noted(result.report, kWorkerSpec + ".restartCount"), HasSubstr("dropped: "));
}

TEST(ElasticJob, ShareOfHighPriorityIsReported) {
  const ImportResult result = Imported(ElasticText("", "priority: \"0.5\""));
  EXPECT_FALSE(result.jobs[0]["spec"]["template"]["spec"].contains("priorityClassName"));
  EXPECT_THAT(Noted(result.report, kWorkerSpec + ".priority"), HasSubstr("dropped: "));
}

TEST(ElasticJob, ScriptsOfTheExamplesAreTranslated) {
  const ImportResult result = Imported(ElasticText(
      "", "replicas: 2",
      "[/bin/bash, -c, \"dlrover-run --nnodes=$WORKER_NUM --nproc_per_node=2 train.py --n "
      "$((WORKER_NUM * 2)) --rank $WORKER_RANK\"]"));
  const JobJson& job = result.jobs[0]["spec"]["job"];
  EXPECT_EQ(job["command"][2],
            "export WORKER_NUM=\"$NODE_NUM\" WORKER_RANK=\"$NODE_RANK\"; exec python3 -u train.py "
            "--n $((WORKER_NUM * 2)) --rank $WORKER_RANK");
  EXPECT_EQ(job["resources"]["processes_per_node"], 2);
}

TEST(ElasticJob, MistakesNameTheField) {
  const struct {
    std::string text;
    const char* want;
  } kRows[] = {
      {ElasticText("distributionStrategy: ParameterServerStrategy", ""),
       "spec.distributionStrategy: is 'ParameterServerStrategy', expected AllreduceStrategy"},
      {ElasticText("", "", "[a]", "ps: {replicas: 2}, "),
       "spec.replicaSpecs.ps: a LonghaulJob has"},
      {ElasticText("", "replicas: 0"), ".replicas: is 0, expected a number from 1 to 100,000"},
      {ElasticText("envs: {A: b}", ""), "spec.envs.A: is 'b', expected an object"},
      {"{apiVersion: elastic.iml.github.io/v1alpha1, kind: ElasticJob, metadata: {name: e}}",
       "spec.replicaSpecs.worker: is missing"},
  };
  for (const auto& row : kRows) EXPECT_THAT(ImportError(row.text), HasSubstr(row.want));
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
