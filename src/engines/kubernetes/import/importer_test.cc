#include "engines/kubernetes/import/importer.h"

#include <string>
#include <vector>

#include "engines/kubernetes/import/import_fixture.h"
#include "engines/kubernetes/import/job_checks.h"

namespace longhaul::engines::kubernetes {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string SmallJob(const std::string& metadata, const std::string& more = "") {
  return "---\napiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {" + metadata +
         "}\nspec: {pytorchReplicaSpecs: {Worker: {template: {spec: {containers: [{name: pytorch, "
         "image: i, command: [a]}]}}}}}\n" +
         more;
}

TEST(Importer, TranslatesEachJobInOrder) {
  const Result<ImportResult> result =
      TryImport(SmallJob("name: b") + SmallJob("name: a") + SmallJob("name: a, namespace: ns"));
  ASSERT_TRUE(result.ok()) << result.status();
  std::vector<JobJson> names;
  for (const JobJson& job : result->jobs) names.push_back(job["metadata"]["name"]);
  EXPECT_THAT(names, ElementsAre("b", "a", "a"));
}

TEST(Importer, OtherObjectsAreReported) {
  const ImportResult result =
      Imported("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n" + SmallJob("name: a") +
               "---\n{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: t}}\n"
               "---\n{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainingRuntime}\n");
  EXPECT_EQ(result.report.ToText(),
            "job.yaml: document 1: ConfigMap c\n"
            "  not translated: it is no training job that Longhaul imports: apply it yourself\n"
            "job.yaml: document 3: TFJob t\n"
            "  not translated: it is no training job that Longhaul imports: apply it yourself\n"
            "job.yaml: document 4: TrainingRuntime\n"
            "  not needed: no TrainJob of the files names it\n"
            "2 not translated, 0 changed, 1 not needed\n");
}

TEST(Importer, ReportAsJsonHasTheSameEntries) {
  const ImportResult result = Imported(
      "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Service, metadata: {name: "
      "s}}]}\n" +
      SmallJob("name: a, uid: x, color: red", "status: {}\n"));
  EXPECT_EQ(result.report.ToJson(), JobJson::parse(R"({
      "changed": [],
      "dropped": [
        {"file": "job.yaml", "document": 1, "item": 1, "object": "Service s", "path": "",
         "reason": "it is no training job that Longhaul imports: apply it yourself"},
        {"file": "job.yaml", "document": 2, "object": "PyTorchJob a", "path": "metadata.color",
         "reason": "the importer does not know this field"}],
      "notNeeded": [
        {"file": "job.yaml", "document": 2, "object": "PyTorchJob a", "path": "status",
         "reason": "it is the state of the other operator's job"},
        {"file": "job.yaml", "document": 2, "object": "PyTorchJob a", "path": "metadata.uid",
         "reason": "the API server sets it"}]})"));
}

TEST(Importer, MetadataIsKept) {
  const ImportResult result = Imported(SmallJob(
      "name: a, namespace: ns, labels: {kueue.x-k8s.io/queue-name: q}, annotations: {x: z, "
      "kubectl.kubernetes.io/last-applied-configuration: '{}'}, finalizers: [f]"));
  EXPECT_EQ(result.jobs[0]["metadata"], JobJson::parse(R"({"name": "a", "namespace": "ns",
      "labels": {"kueue.x-k8s.io/queue-name": "q"}, "annotations": {"x": "z"}})"));
  EXPECT_THAT(Noted(result.report, "metadata.finalizers"), HasSubstr("dropped: "));
}

TEST(Importer, ReportsTheMistakesOfAllJobs) {
  const Result<ImportResult> result =
      TryImport(SmallJob("name: A") + SmallJob("name: b") + SmallJob("name: c.d"));
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(),
              testing::AllOf(HasSubstr("job.yaml: document 1: PyTorchJob A: metadata.name: is 'A'"),
                             HasSubstr("\njob.yaml: document 3: PyTorchJob c.d: metadata.name")));
}

TEST(Importer, RefusesTwoJobsOfOneName) {
  EXPECT_THAT(ImportError(SmallJob("name: a") + SmallJob("name: a")),
              HasSubstr("document 2: PyTorchJob a: metadata.name: another job of the files has"));
}

TEST(Importer, RefusesFilesWithoutATrainingJob) {
  EXPECT_THAT(ImportError("# nothing\n"), HasSubstr("no training job found"));
  EXPECT_THAT(ImportError("{apiVersion: v1, kind: Pod}"), HasSubstr("no training job found"));
}

// What only the checks of the operator or of the controller find.
TEST(Importer, RefusesWhatTheOperatorOrTheControllerWouldRefuse) {
  std::string words = "[a";
  for (int i = 0; i < 1'000; ++i) words += ", b";
  const std::string job = SmallJob("name: a");
  const struct {
    std::string command;
    const char* want;
  } kRows[] = {
      {words + "]", "command: has 1001 words with args, expected at most 1,000"},
      {"[" + std::string(40'000, 'x') + "]", "the LonghaulJob that results is refused"},
      {"[a], securityContext: x, workingDir: " + std::string(5'000, 'w'), "working_directory"},
      {"[a], ports: [" + std::string(1'100'000, 'p') + "]", "expected at most 1 MiB"},
  };
  for (const auto& row : kRows) {
    std::string text = job;
    text.replace(text.find("[a]"), 3, row.command);
    EXPECT_THAT(ImportError(text), HasSubstr(row.want)) << row.command.substr(0, 40);
  }
}

// Each of them took a minute or gigabytes before it had a limit.
TEST(Importer, HostileTextsEndSoon) {
  std::string references;
  std::string assignments;
  std::string variables;
  for (int i = 0; i < 100'000; ++i) references += "$(";
  for (int i = 0; i < 100'000; ++i) assignments += "A=1 ";
  for (int i = 0; i < 100'000; ++i) variables += "$(V)";
  const std::string value(10'000, 'v');
  for (const std::string& command :
       {"[sh, -c, '" + references + "']", "[sh, -c, '" + assignments + "']",
        "['" + variables + "'], env: [{name: V, value: '" + value + "'}]"}) {
    std::string text = SmallJob("name: a");
    text.replace(text.find("[a]"), 3, command);
    EXPECT_THAT(ImportError(text), HasSubstr("32,768")) << command.substr(0, 40);
  }
  std::string aliases = "a: &a '" + std::string(1'000'000, 'x') + "'\nb: [*a";
  for (int i = 0; i < 100; ++i) aliases += ", *a";
  EXPECT_THAT(ImportError(aliases + "]"), HasSubstr("job.yaml:2: the file has more than 16 MiB"));
}

TEST(LonghaulJobChecks, AgreeWithTheDefinition) {
  const JobJson good = JobJson::parse(R"({"metadata": {"name": "a"}, "spec": {"queue": "q",
      "workers": {"min": 2, "desired": 4, "max": 8, "step": 2}, "job": {"command": ["a"]},
      "devices": {"resource": "nvidia.com/gpu", "perWorker": 8}}})");
  EXPECT_TRUE(CheckLonghaulJob(good).ok()) << CheckLonghaulJob(good);
  const struct {
    const char* patch;
    const char* want;
  } kRows[] = {
      {R"({"spec": {"queue": "A b"}})", "spec.queue"},
      {R"({"spec": {"workers": {"step": 3}}})", "spec.workers.step"},
      {R"({"spec": {"workers": {"min": 3}}})", "spec.workers.step"},
      {R"({"spec": {"workers": {"max": 9}}})", "spec.workers.step"},
      {R"({"spec": {"workers": {"desired": 100001}}})", "spec.workers.desired"},
      {R"({"spec": {"devices": {"resource": "gpu"}}})", "spec.devices.resource"},
      {R"({"spec": {"devices": {"resource": "a.b/"}}})", "spec.devices.resource"},
      {R"({"spec": {"job": {"command": null}}})", "spec.job"},
      {R"({"spec": {"job": {"trane": 1}}})", "unknown key"},
      {R"({"spec": {"template": {"spec": {"nodeName": "n"}}}})", "spec.template.spec.nodeName"},
      {R"({"metadata": {"name": "a.b"}})", "metadata.name"},
  };
  for (const auto& row : kRows) {
    JobJson bad = good;
    bad.merge_patch(JobJson::parse(row.patch));
    EXPECT_THAT(CheckLonghaulJob(bad).message(), HasSubstr(row.want)) << row.patch;
  }
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
