#include "engines/kubernetes/jobs/pod_templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace longhaul::engines::kubernetes::pod_templates_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

JobJson Object() {
  return JobJson::parse(R"({
    "metadata": {"name": "tune", "namespace": "ns", "uid": "u1"},
    "spec": {
      "workers": {"desired": 2},
      "devices": {"resource": "nvidia.com/gpu", "perWorker": 8},
      "job": {"command": ["train"]},
      "template": {
        "metadata": {"labels": {"team": "a", "longhaul.dev/job": "other",
                                "longhaul.dev/extra": "0"},
                     "annotations": {"note": "b", "longhaul.dev/controller": "evil:1"}},
        "spec": {
          "nodeSelector": {"rack": "r1"},
          "volumes": [{"name": "data", "emptyDir": {}}],
          "initContainers": [{"name": "fetch", "image": "f"}],
          "containers": [
            {"name": "sidecar", "image": "s", "command": ["log"]},
            {"name": "worker", "image": "train:1", "env": [{"name": "A", "value": "b"}],
             "volumeMounts": [{"name": "data", "mountPath": "/data"}],
             "resources": {"requests": {"cpu": "4"}, "limits": {"memory": "1Gi"}},
             "securityContext": {"privileged": true}}]}}}})");
}

LonghaulJob JobOf(const JobJson& object) {
  const Result<LonghaulJob> job = ReadLonghaulJob(object);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? *job : LonghaulJob();
}

PodSettings Settings() {
  PodSettings settings;
  settings.image = "longhaul:1";
  return settings;
}

std::vector<std::string> Names(const JobJson& list) {
  std::vector<std::string> names;
  for (const JobJson& each : list) names.push_back(each["name"]);
  return names;
}

JobJson Worker(const JobJson& object) {
  const LonghaulJob job = JobOf(object);
  EXPECT_TRUE(CheckPodTemplate(job).ok()) << CheckPodTemplate(job);
  return WorkerPod(job, Settings(), 1, 2, {"10.0.0.1:8701", "CERTIFICATE"});
}

TEST(ControllerPlace, AnAddressOfVersion6IsInBrackets) {
  JobPod pod;
  pod.ip = "fd00::7";
  EXPECT_EQ(PlaceOf(pod).address, "") << "it has not published its authority";
  pod.authority = "CERTIFICATE";
  EXPECT_EQ(PlaceOf(pod).address, "[fd00::7]:8701");
  EXPECT_EQ(PlaceOf(pod).authority, "CERTIFICATE");
  pod.ip = "10.0.0.1";
  EXPECT_EQ(PlaceOf(pod).address, "10.0.0.1:8701");
  pod.ip.clear();
  EXPECT_EQ(PlaceOf(pod), ControllerPlace());
}

TEST(WorkerPod, KeepsWhatTheTemplateHas) {
  const JobJson pod = Worker(Object());
  const JobJson& spec = pod["spec"];
  EXPECT_EQ(spec["nodeSelector"]["rack"], "r1");
  EXPECT_THAT(Names(spec["initContainers"]), ElementsAre("install", "fetch"));
  EXPECT_THAT(Names(spec["containers"]), ElementsAre("sidecar", "worker"));
  EXPECT_EQ(spec["containers"][0]["command"], JobJson::array({"log"}));
  EXPECT_THAT(Names(spec["volumes"]),
              ElementsAre("data", "longhaul-pod", "longhaul-state", "longhaul-token",
                          "longhaul-program", "longhaul-memory"));
  const JobJson& worker = spec["containers"][1];
  EXPECT_EQ(worker["image"], "train:1");
  EXPECT_EQ(worker["securityContext"]["privileged"], true);
  EXPECT_THAT(Names(worker["env"]), ElementsAre("A", "POD_NAME", "POD_IP"));
  EXPECT_THAT(Names(worker["volumeMounts"]),
              ElementsAre("data", "longhaul-pod", "longhaul-state", "longhaul-token",
                          "longhaul-program", "longhaul-memory"));
  EXPECT_EQ(worker["resources"], JobJson::parse(R"({"requests": {"cpu": "4"},
      "limits": {"memory": "1Gi", "nvidia.com/gpu": "8"}})"));
}

TEST(WorkerPod, TheTemplateDoesNotReplaceWhatTheOperatorSets) {
  const JobJson pod = Worker(Object());
  EXPECT_EQ(pod["metadata"]["labels"], JobJson::parse(R"({
      "longhaul.dev/job": "tune", "longhaul.dev/role": "worker", "longhaul.dev/life": "2",
      "longhaul.dev/index": "1", "scheduling.x-k8s.io/pod-group": "tune", "team": "a"})"));
  const JobJson& annotations = pod["metadata"]["annotations"];
  EXPECT_EQ(annotations["longhaul.dev/controller"], "10.0.0.1:8701");
  EXPECT_EQ(annotations["longhaul.dev/authority"], "CERTIFICATE");
  EXPECT_EQ(annotations["note"], "b");
  EXPECT_EQ(pod["metadata"]["ownerReferences"][0]["uid"], "u1");
  EXPECT_EQ(pod["spec"]["schedulingGates"][0]["name"], "longhaul.dev/gang");
  EXPECT_EQ(pod["spec"]["schedulerName"], "longhaul");
}

TEST(WorkerPod, BeyondDesiredIsAGangOfItsOwnOfLowPriority) {
  JobJson object = Object();
  object["spec"]["workers"] = {{"min", 2}, {"desired", 4}, {"max", 8}, {"step", 2}};
  object["spec"]["template"]["spec"]["priorityClassName"] = "high";
  object["spec"]["template"]["spec"]["preemptionPolicy"] = "PreemptLowerPriority";
  const LonghaulJob job = JobOf(object);
  const JobJson usual = WorkerPod(job, Settings(), 3, 0, {});
  EXPECT_EQ(usual["spec"]["priorityClassName"], "high");
  EXPECT_EQ(usual["metadata"]["annotations"]["longhaul.dev/min-member"], "2");
  EXPECT_FALSE(usual["metadata"]["labels"].contains("longhaul.dev/extra"));
  const JobJson pod = WorkerPod(job, Settings(), 7, 0, {});
  EXPECT_EQ(pod["metadata"]["labels"]["longhaul.dev/extra"], "1");
  EXPECT_EQ(pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"], "tune-extra-1");
  EXPECT_EQ(pod["metadata"]["annotations"]["longhaul.dev/min-member"], "2");
  EXPECT_EQ(pod["spec"]["priorityClassName"], "longhaul-extra-worker");
  EXPECT_FALSE(pod["spec"].contains("preemptionPolicy"));
}

TEST(WorkerPod, WithoutATemplateHasTheImageOfLonghaul) {
  JobJson object = Object();
  object["spec"].erase("template");
  object["spec"].erase("devices");
  const JobJson pod = Worker(object);
  const JobJson& worker = pod["spec"]["containers"][0];
  EXPECT_EQ(worker["name"], "worker");
  EXPECT_EQ(worker["image"], "longhaul:1");
  EXPECT_FALSE(worker.contains("resources"));
  EXPECT_EQ(pod["spec"]["automountServiceAccountToken"], false);
  EXPECT_EQ(pod["spec"]["terminationGracePeriodSeconds"], 120);
}

TEST(WorkerPod, TheOnlyContainerIsTheWorkersWhateverItsName) {
  JobJson object = Object();
  object["spec"]["template"]["spec"]["containers"] =
      JobJson::array({{{"name", "main"}, {"image", "i"}}});
  EXPECT_THAT(Names(Worker(object)["spec"]["containers"]), ElementsAre("worker"));
}

TEST(ControllerPod, HasTheJobFileAndTheKeysAsFiles) {
  const LonghaulJob job = JobOf(Object());
  const JobJson pod = ControllerPod(job, Settings(), 3, "FILE", "KEYS");
  EXPECT_EQ(pod["metadata"]["name"], "tune-controller-3");
  EXPECT_EQ(pod["metadata"]["annotations"]["longhaul.dev/job-file"], "FILE");
  EXPECT_EQ(pod["metadata"]["annotations"]["longhaul.dev/token-keys"], "KEYS");
  EXPECT_FALSE(pod["spec"].contains("schedulingGates"));
  EXPECT_EQ(pod["spec"]["automountServiceAccountToken"], false);
}

TEST(ControllerPod, HasTheStorageAndTheUserOfTheWorkers) {
  JobJson object = Object();
  object["spec"]["template"]["spec"]["securityContext"] = {{"runAsUser", 7}};
  object["spec"]["runDirectory"] = "/data/run";
  const JobJson pod = ControllerPod(JobOf(object), Settings(), 0, "FILE", "KEYS");
  EXPECT_THAT(Names(pod["spec"]["volumes"]), ElementsAre("longhaul-pod", "longhaul-state", "data"));
  EXPECT_THAT(Names(pod["spec"]["containers"][0]["volumeMounts"]),
              ElementsAre("longhaul-pod", "longhaul-state", "data"));
  EXPECT_EQ(pod["spec"]["securityContext"], JobJson::parse(R"({"runAsUser": 7})"));
}

TEST(PodTemplate, RefusesByTheName) {
  const struct {
    const char* pointer;
    const char* value;
    const char* want;
  } kRows[] = {
      {"/metadata", "3", "spec.template.metadata: expected an object"},
      {"/metadata/labels", "[]", "spec.template.metadata.labels: expected an object"},
      {"/metadata/labels/team", "1", "spec.template.metadata.labels.team: expected a text"},
      {"/metadata/annotations/note", "{}", "spec.template.metadata.annotations.note"},
      {"/metadata/labels/kueue.x-k8s.io~1queue-name", "\"team\"", "belongs to metadata.labels"},
      {"/spec/nodeSelector", "[]", "spec.template.spec.nodeSelector: expected an object"},
      {"/spec/tolerations", "{}", "spec.template.spec.tolerations: expected a list"},
      {"/spec", "\"x\"", "spec.template.spec: expected an object"},
      {"/spec/nodeName", "\"n\"", "spec.template.spec.nodeName: the operator sets it"},
      {"/spec/restartPolicy", "\"Never\"", "spec.template.spec.restartPolicy"},
      {"/spec/schedulerName", "\"x\"", "spec.template.spec.schedulerName"},
      {"/spec/schedulingGates", "[]", "spec.template.spec.schedulingGates"},
      {"/spec/initContainers", "{\"a\": 1}", "spec.template.spec.initContainers: expected a list"},
      {"/spec/initContainers/0", "1", "spec.template.spec.initContainers: expected a list"},
      {"/spec/securityContext", "1", "spec.template.spec.securityContext: expected an object"},
      {"/spec/volumes", "\"x\"", "spec.template.spec.volumes: expected a list"},
      {"/spec/containers", "7", "spec.template.spec.containers: expected one container"},
      {"/spec/containers/1/name", "\"w\"", "spec.template.spec.containers: expected one"},
      {"/spec/containers/1/command", "[]", "spec.template.spec.containers: command"},
      {"/spec/containers/1/args", "[]", "spec.template.spec.containers: args"},
      {"/spec/containers/1/env", "5", "spec.template.spec.containers.env: expected a list"},
      {"/spec/containers/1/volumeMounts", "[1]", "spec.template.spec.containers.volumeMounts"},
      {"/spec/containers/1/resources", "\"8\"", "spec.template.spec.containers.resources"},
      {"/spec/containers/1/resources/limits", "[]",
       "spec.template.spec.containers.resources.limits: expected an object"},
  };
  for (const auto& row : kRows) {
    JobJson object = Object();
    object["spec"]["template"][JobJson::json_pointer(row.pointer)] = JobJson::parse(row.value);
    const Status status = CheckPodTemplate(JobOf(object));
    EXPECT_FALSE(status.ok()) << row.pointer;
    EXPECT_THAT(status.message(), HasSubstr(row.want));
  }
}

TEST(PodTemplate, RefusesANameFromWhichNoPodCanBeNamed) {
  for (const char* name : {"a.b", "a12345678901234567890123456789012345678901"}) {
    JobJson object = Object();
    object["metadata"]["name"] = name;
    EXPECT_THAT(CheckPodTemplate(JobOf(object)).message(), HasSubstr("metadata.name")) << name;
  }
}

// Each value of the template becomes one of each other type: it is refused, or pods are made.
TEST(PodTemplate, AValueOfAnyTypeIsRefusedOrKept) {
  const JobJson flat = Object()["spec"]["template"].flatten();
  std::set<std::string> pointers = {""};
  for (const auto& [pointer, value] : flat.items()) {
    for (size_t end = pointer.find('/', 1); end != pointer.npos; end = pointer.find('/', end + 1)) {
      pointers.insert(pointer.substr(0, end));
    }
    pointers.insert(pointer);
  }
  int made = 0;
  int refused = 0;
  for (const std::string& pointer : pointers) {
    for (const char* value : {"null", "1", "\"x\"", "true", "[]", "[1]", "{}", "{\"a\":1}"}) {
      JobJson object = Object();
      object["spec"]["template"][JobJson::json_pointer(pointer)] = JobJson::parse(value);
      const Result<LonghaulJob> job = ReadLonghaulJob(object);
      if (!job.ok() || !CheckPodTemplate(*job).ok()) {
        ++refused;
        continue;
      }
      ++made;
      SCOPED_TRACE(pointer + " is " + value);
      JobJson pod = WorkerPod(*job, Settings(), 0, 0, {"10.0.0.1:8701", "C"});
      pod["metadata"]["uid"] = "p";
      EXPECT_TRUE(ReadJobPod(pod).ok());
      const JobJson& containers = pod["spec"]["containers"];
      EXPECT_EQ(containers.back()["resources"]["limits"]["nvidia.com/gpu"], "8");
    }
  }
  EXPECT_GT(made, 50);
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes::pod_templates_test
