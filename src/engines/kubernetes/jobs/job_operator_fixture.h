// For tests: the operator of LonghaulJobs with one job, step by step.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engines/kubernetes/jobs/job_operator.h"

namespace longhaul::engines::kubernetes {

inline constexpr const char* kKeys = R"({"keys":[]})";

inline JobJson JobObject() {
  return JobJson::parse(R"({
    "metadata": {"name": "tune", "namespace": "ns", "uid": "u1", "resourceVersion": "5",
                 "generation": 1, "finalizers": ["longhaul.dev/pods"]},
    "spec": {"workers": {"desired": 2}, "job": {"command": ["train"]}}})");
}

// The API server and the kubelets around the operator, as far as it sees them.
class JobOperatorTest : public testing::Test {
 protected:
  JobOperatorTest() : operator_(Settings()) {
    object_ = JobObject();
    operator_.OnTokenKeys(kKeys);
  }
  static JobOperatorSettings Settings() {
    JobOperatorSettings settings;
    settings.pods.image = "longhaul:test";
    return settings;
  }

  void Observe() {
    Result<LonghaulJob> job = ReadLonghaulJob(object_);
    ASSERT_TRUE(job.ok()) << job.status();
    operator_.OnJob(*std::move(job));
  }
  void ObservePod(const std::string& name) {
    const Result<JobPod> pod = ReadJobPod(pods_.at(name));
    ASSERT_TRUE(pod.ok()) << pod.status();
    operator_.OnPod(*pod);
  }
  void Merge(const std::string& pod, const char* patch) {
    pods_.at(pod).merge_patch(JobJson::parse(patch));
    ObservePod(pod);
  }
  void Vanish(const std::string& pod) {
    pods_.erase(pod);
    operator_.OnPodGone("ns/" + pod);
  }
  // The controller pod runs and has published its authority.
  void StartController(const std::string& pod, const std::string& ip = "10.0.0.1") {
    Merge(pod, (R"({"spec": {"nodeName": "n0"}, "status": {"phase": "Running", "podIP": ")" + ip +
                R"(", "initContainerStatuses": [{"name": "authority", "state":
                    {"terminated": {"exitCode": 0, "message": "CERTIFICATE"}}}],
                   "containerStatuses": [{"name": "controller", "restartCount": 0,
                    "state": {"running": {}}}]}})")
                   .c_str());
  }
  void StartWorker(const std::string& pod) {
    Merge(pod, R"({"spec": {"nodeName": "n1"}, "status": {"phase": "Running", "podIP": "10.0.0.2",
                   "containerStatuses": [{"name": "worker", "restartCount": 0,
                    "state": {"running": {}}}]}})");
  }
  ControllerReport Report(std::set<std::string> connected, bool training = true) {
    ControllerReport report;
    report.connected = std::move(connected);
    report.training = training;
    report.goodput = 0.5;
    return report;
  }

  // Lets the operator act until it rests; carries out what it does, and returns it in words.
  std::vector<std::string> Rest() {
    std::vector<std::string> did;
    for (int turn = 0; turn < 20; ++turn) {
      const std::vector<JobAction> actions = operator_.Advance(now_, wall_);
      if (actions.empty()) break;
      for (const JobAction& action : actions) {
        did.push_back(Carry(action));
        operator_.OnReply(action, ActionResult::kDone, "", now_);
      }
    }
    std::sort(did.begin(), did.end());
    std::erase(did, "status");
    return did;
  }
  std::string Carry(const JobAction& action) {
    if (const auto* create = std::get_if<CreateJobPod>(&action)) {
      EXPECT_FALSE(pods_.contains(create->pod.name)) << create->pod.name;
      JobJson pod = create->object;
      pod["metadata"]["uid"] = "pod-" + std::to_string(++made_);
      pods_[create->pod.name] = std::move(pod);
      ObservePod(create->pod.name);
      return "create " + create->pod.name;
    }
    if (const auto* remove = std::get_if<DeleteJobPod>(&action)) {
      EXPECT_EQ(pods_.at(remove->pod.name)["metadata"]["uid"], remove->pod.uid);
      Merge(remove->pod.name, R"({"metadata": {"deletionTimestamp": "2026-01-31T08:00:00Z"}})");
      return "delete " + remove->pod.name;
    }
    if (const auto* patch = std::get_if<PatchJobPod>(&action)) {
      pods_.at(patch->pod.name).merge_patch(patch->patch);
      ObservePod(patch->pod.name);
      return "patch " + patch->pod.name;
    }
    if (const auto* job = std::get_if<PatchJob>(&action)) {
      JobJson patch = job->patch;
      patch.erase(job->status ? "metadata" : "status");
      object_.merge_patch(patch);
      Observe();
      return job->status ? "status" : "job";
    }
    if (const auto* create = std::get_if<CreateWorkload>(&action)) {
      EXPECT_TRUE(workload_.is_null());
      workload_ = create->object;
      workload_["metadata"]["uid"] = "workload-" + std::to_string(++made_);
      ObserveWorkload();
      return "create " + create->workload.name;
    }
    if (const auto* remove = std::get_if<DeleteWorkload>(&action)) {
      EXPECT_EQ(workload_["metadata"]["uid"], remove->workload.uid);
      workload_ = JobJson();
      operator_.OnWorkloadGone(remove->workload.Key());
      return "delete " + remove->workload.name;
    }
    if (const auto* patch = std::get_if<PatchWorkload>(&action)) {
      workload_["status"].merge_patch(patch->patch["status"]);
      ObserveWorkload();
      return "patch " + patch->workload.name;
    }
    return "event " + std::get<RecordEvent>(action).event["reason"].get<std::string>();
  }
  void ObserveWorkload() {
    Result<Workload> workload = ReadWorkload(workload_);
    ASSERT_TRUE(workload.ok()) << workload.status();
    operator_.OnWorkload(*std::move(workload));
  }
  void Pass(Duration time) {
    now_ += time;
    wall_ += time;
  }
  std::string Phase() const { return object_["status"]["phase"]; }
  std::string Message() const {
    for (const JobJson& condition : object_["status"]["conditions"]) {
      if (condition["type"] == Phase()) return condition["message"];
    }
    return "no condition";
  }
  // The controller of a job reports that its two workers train.
  void BeginTraining() {
    Observe();
    Rest();
    StartController("tune-controller-0");
    Rest();
    StartWorker("tune-worker-0-0");
    StartWorker("tune-worker-1-0");
    Pass(std::chrono::seconds(2));
    operator_.OnReport("ns/tune", pods_["tune-controller-0"]["metadata"]["uid"],
                       Report({"tune-worker-0-0", "tune-worker-1-0"}), now_);
  }
  // A job whose two workers train.
  void Train() {
    BeginTraining();
    Rest();
    ASSERT_EQ(Phase(), "Running");
  }

  // The controller handles a fault.
  void Recover() {
    ControllerReport report = Report({"tune-worker-0-0"}, false);
    report.recovering = true;
    report.fault = "worker 1 ended";
    operator_.OnReport("ns/tune", pods_["tune-controller-0"]["metadata"]["uid"], report, now_);
  }

  JobOperator operator_;
  JobJson object_;
  std::map<std::string, JobJson> pods_;
  JobJson workload_;  // null: none
  int made_ = 0;
  Instant now_ = InstantFromNanoseconds(1'000'000'000'000);
  Instant wall_ = InstantFromNanoseconds(1'769'846'400'000'000'000);
};

}  // namespace longhaul::engines::kubernetes
