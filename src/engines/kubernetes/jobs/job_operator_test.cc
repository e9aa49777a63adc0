#include "engines/kubernetes/jobs/job_operator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kKeys = R"({"keys":[]})";

JobJson JobObject() {
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
    return "event " + std::get<RecordEvent>(action).event["reason"].get<std::string>();
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
  // A job whose two workers train.
  void Train() {
    Observe();
    Rest();
    StartController("tune-controller-0");
    Rest();
    StartWorker("tune-worker-0-0");
    StartWorker("tune-worker-1-0");
    operator_.OnReport("ns/tune", pods_["tune-controller-0"]["metadata"]["uid"],
                       Report({"tune-worker-0-0", "tune-worker-1-0"}), now_);
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
  int made_ = 0;
  Instant now_ = InstantFromNanoseconds(1'000'000'000'000);
  Instant wall_ = InstantFromNanoseconds(1'769'846'400'000'000'000);
};

TEST_F(JobOperatorTest, AJobGetsItsFinalizerThenItsControllerThenItsWorkers) {
  object_["metadata"].erase("finalizers");
  Observe();
  EXPECT_THAT(Rest(), ElementsAre("create tune-controller-0", "event Queued", "job"));
  EXPECT_EQ(object_["metadata"]["finalizers"], JobJson::array({kJobFinalizer}));
  EXPECT_EQ(Phase(), "Queued");
  StartController("tune-controller-0");
  EXPECT_THAT(Rest(), ElementsAre("create tune-worker-0-0", "create tune-worker-1-0",
                                  "patch tune-worker-0-0", "patch tune-worker-1-0"));
  const JobJson& worker = pods_["tune-worker-1-0"];
  EXPECT_FALSE(worker["spec"].contains("schedulingGates")) << "removed once both exist";
  EXPECT_EQ(worker["metadata"]["annotations"]["longhaul.dev/controller"], "10.0.0.1:8701");
  EXPECT_EQ(worker["metadata"]["annotations"]["longhaul.dev/authority"], "CERTIFICATE");
  EXPECT_EQ(worker["metadata"]["annotations"]["longhaul.dev/min-member"], "2");
  EXPECT_EQ(worker["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"], "tune");
  EXPECT_THAT(Rest(), IsEmpty());
}

TEST_F(JobOperatorTest, TheControllerHasTheStorageOfTheWorkers) {
  object_["spec"]["runDirectory"] = "/data/runs/tune";
  object_["spec"]["template"] = JobJson::parse(R"({"spec": {
      "securityContext": {"runAsUser": 1000},
      "volumes": [{"name": "data", "nfs": {"server": "nas", "path": "/x"}}],
      "containers": [{"name": "worker",
                      "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]}})");
  Observe();
  Rest();
  const JobJson& spec = pods_["tune-controller-0"]["spec"];
  EXPECT_EQ(spec["volumes"].back()["name"], "data");
  EXPECT_EQ(spec["containers"][0]["volumeMounts"].back()["mountPath"], "/data");
  EXPECT_EQ(spec["securityContext"], (JobJson{{"runAsUser", 1000}}));
}

TEST_F(JobOperatorTest, ARefusedControllerIsExplained) {
  Observe();
  for (const JobAction& action : operator_.Advance(now_, wall_)) {
    const bool create = std::holds_alternative<CreateJobPod>(action);
    operator_.OnReply(action, create ? ActionResult::kRefused : ActionResult::kDone,
                      create ? "exceeded quota" : "", now_);
    if (!create) Carry(action);
  }
  Rest();
  EXPECT_EQ(Message(), "exceeded quota");
}

TEST_F(JobOperatorTest, WithoutTheKeysOfTokensNothingStarts) {
  JobOperator other(Settings());
  operator_ = std::move(other);
  Observe();
  EXPECT_THAT(Rest(), ElementsAre("event Queued"));
  EXPECT_THAT(Message(), HasSubstr("keys"));
  operator_.OnTokenKeys(kKeys);
  EXPECT_THAT(Rest(), ElementsAre("create tune-controller-0"));
}

TEST_F(JobOperatorTest, ThePhaseFollowsThePodsAndTheController) {
  Observe();
  Rest();
  StartController("tune-controller-0");
  Rest();
  EXPECT_EQ(Phase(), "Queued");
  EXPECT_EQ(Message(), "0 worker pods of 2 have a node");
  Merge("tune-worker-0-0", R"({"status": {"conditions": [{"type": "PodScheduled",
      "status": "False", "reason": "Unschedulable", "message": "2 GPUs are missing"}]}})");
  Rest();
  EXPECT_EQ(Message(), "tune-worker-0-0: 2 GPUs are missing");
  StartWorker("tune-worker-0-0");
  StartWorker("tune-worker-1-0");
  EXPECT_THAT(Rest(), ElementsAre("event Placed"));
  const std::string uid = pods_["tune-controller-0"]["metadata"]["uid"];
  operator_.OnReport("ns/tune", uid, Report({"tune-worker-0-0"}, false), now_);
  Rest();
  EXPECT_EQ(Phase(), "Placed");
  EXPECT_EQ(object_["status"]["ready"], 1) << "of the other one the agent is not connected";
  operator_.OnReport("ns/tune", uid, Report({"tune-worker-0-0", "tune-worker-1-0"}), now_);
  EXPECT_THAT(Rest(), ElementsAre("event Running"));
  EXPECT_EQ(object_["status"]["ready"], 2);
  EXPECT_EQ(object_["status"]["goodput"], 0.5);
}

TEST_F(JobOperatorTest, ADeletedWorkerIsReplacedByItsNextLife) {
  Train();
  Recover();
  Merge("tune-worker-1-0", R"({"metadata": {"deletionTimestamp": "2026-01-31T08:00:00Z"}})");
  EXPECT_THAT(Rest(),
              ElementsAre("create tune-worker-1-1", "event Restarting", "patch tune-worker-1-1"));
  EXPECT_EQ(Message(), "worker 1 ended");
  Vanish("tune-worker-1-0");
  EXPECT_THAT(Rest(), IsEmpty());
  EXPECT_EQ(Phase(), "Restarting");
}

TEST_F(JobOperatorTest, AFailedWorkerIsDeletedAndReplaced) {
  Train();
  Recover();
  Merge("tune-worker-0-0", R"({"status": {"phase": "Failed", "reason": "OutOfnvidia.com/gpu"}})");
  EXPECT_THAT(Rest(), ElementsAre("create tune-worker-0-1", "delete tune-worker-0-0",
                                  "event Restarting", "patch tune-worker-0-1"));
}

TEST_F(JobOperatorTest, AWorkerWhoseAgentIsGoneIsReplacedAfterItsPatience) {
  Train();
  const std::string uid = pods_["tune-controller-0"]["metadata"]["uid"];
  for (int i = 0; i < 5; ++i) {
    operator_.OnReport("ns/tune", uid, Report({"tune-worker-0-0"}), now_);
    EXPECT_THAT(Rest(), IsEmpty()) << i;
    Pass(seconds(10));
  }
  operator_.OnReport("ns/tune", uid, Report({"tune-worker-0-0", "tune-worker-1-0"}), now_);
  Rest();  // it was back in time
  for (int i = 0; i < 6; ++i) {
    Pass(seconds(10));
    operator_.OnReport("ns/tune", uid, Report({"tune-worker-0-0"}), now_);
    EXPECT_THAT(Rest(), IsEmpty()) << i;
  }
  Pass(seconds(10));
  operator_.OnReport("ns/tune", uid, Report({"tune-worker-0-0"}), now_);
  EXPECT_THAT(Rest(), ElementsAre("create tune-worker-1-1", "delete tune-worker-1-0",
                                  "event WorkerLost", "patch tune-worker-1-1"));
}

TEST_F(JobOperatorTest, WithoutReportsNoWorkerIsLost) {
  Train();
  for (int i = 0; i < 20; ++i) {
    Pass(seconds(30));
    for (const std::string& did : Rest()) EXPECT_EQ(did.find("delete"), std::string::npos) << did;
  }
}

TEST_F(JobOperatorTest, WorkersFollowANewController) {
  Train();
  Merge("tune-controller-0", R"({"metadata": {"deletionTimestamp": "2026-01-31T08:00:00Z"}})");
  Rest();
  EXPECT_FALSE(pods_.contains("tune-controller-1")) << "the one before is still ending";
  Vanish("tune-controller-0");
  EXPECT_THAT(Rest(), ElementsAre("create tune-controller-0"));
  StartController("tune-controller-0", "10.0.0.9");
  EXPECT_THAT(Rest(), ElementsAre("patch tune-worker-0-0", "patch tune-worker-1-0"));
  EXPECT_EQ(Phase(), "Restarting") << "the report is of the controller before";
  EXPECT_EQ(pods_["tune-worker-0-0"]["metadata"]["annotations"]["longhaul.dev/controller"],
            "10.0.0.9:8701");
  // Their agents get time until their kubelet shows them the new address.
  for (int i = 0; i < 20; ++i) {
    operator_.OnReport("ns/tune", pods_["tune-controller-0"]["metadata"]["uid"], Report({}, false),
                       now_);
    for (const std::string& did : Rest()) EXPECT_EQ(did.find("delete"), std::string::npos) << did;
    Pass(seconds(10));
  }
}

TEST_F(JobOperatorTest, AControllerThatDoesNotEndIsReplacedAfterItsPatience) {
  Train();
  Merge("tune-controller-0", R"({"metadata": {"deletionTimestamp": "2026-01-31T08:00:00Z"}})");
  Rest();
  Pass(minutes(3));
  Rest();
  EXPECT_FALSE(pods_.contains("tune-controller-1"));
  Pass(minutes(1));
  EXPECT_THAT(Rest(), ElementsAre("create tune-controller-1"));
}

TEST_F(JobOperatorTest, TheOutcomeIsKeptAndTheWorkersGo) {
  Train();
  Merge("tune-controller-0", R"({"status": {"phase": "Succeeded", "containerStatuses": [
      {"name": "controller", "state": {"terminated": {"exitCode": 0, "message":
       "{\"outcome\":\"succeeded\",\"message\":\"320 steps\",\"restarts\":3}"}}}]}})");
  EXPECT_THAT(Rest(), ElementsAre("delete tune-worker-0-0", "delete tune-worker-1-0",
                                  "event Restarted", "event Succeeded"));
  EXPECT_EQ(Phase(), "Succeeded");
  EXPECT_EQ(Message(), "320 steps");
  EXPECT_EQ(object_["status"]["restarts"], 3);
  Vanish("tune-worker-0-0");
  Vanish("tune-worker-1-0");
  Vanish("tune-controller-0");
  EXPECT_THAT(Rest(), IsEmpty()) << "a finished job makes no pods";
}

TEST_F(JobOperatorTest, AControllerThatEndsWithoutAnOutcomeIsReplaced) {
  Train();
  Merge("tune-controller-0", R"({"status": {"phase": "Failed", "reason": "Evicted"}})");
  EXPECT_THAT(Rest(), ElementsAre("delete tune-controller-0", "event Restarting"));
  Vanish("tune-controller-0");
  EXPECT_THAT(Rest(), ElementsAre("create tune-controller-0"));
  EXPECT_EQ(Phase(), "Restarting");
}

TEST_F(JobOperatorTest, ASuspendedJobLosesItsControllerFirst) {
  Train();
  object_["spec"]["suspend"] = true;
  Observe();
  EXPECT_THAT(Rest(), ElementsAre("delete tune-controller-0", "event Suspended"));
  Vanish("tune-controller-0");
  EXPECT_THAT(Rest(), ElementsAre("delete tune-worker-0-0", "delete tune-worker-1-0"));
  Vanish("tune-worker-0-0");
  Vanish("tune-worker-1-0");
  EXPECT_THAT(Rest(), IsEmpty());
  EXPECT_EQ(Message(), "spec.suspend is true");
  object_["spec"]["suspend"] = false;
  Observe();
  EXPECT_THAT(Rest(), ElementsAre("create tune-controller-0", "event Queued"));
}

TEST_F(JobOperatorTest, ADeletedJobIsGoneAfterItsPods) {
  Train();
  object_["metadata"]["deletionTimestamp"] = "2026-01-31T08:00:00Z";
  Observe();
  EXPECT_THAT(Rest(), ElementsAre("delete tune-controller-0"));
  Vanish("tune-controller-0");
  Rest();
  Vanish("tune-worker-0-0");
  EXPECT_THAT(Rest(), IsEmpty());
  Vanish("tune-worker-1-0");
  EXPECT_THAT(Rest(), ElementsAre("job"));
  EXPECT_EQ(object_["metadata"]["finalizers"], JobJson::array());
}

TEST_F(JobOperatorTest, AChangedJobStartsAgainFromItsCheckpoint) {
  Train();
  object_["spec"]["job"]["command"] = {"other"};
  Observe();
  EXPECT_THAT(Rest(), ElementsAre("delete tune-controller-0", "event Restarting"));
}

TEST_F(JobOperatorTest, FewerWorkersAreDeletedFromTheEnd) {
  Train();
  object_["spec"]["workers"]["desired"] = 1;
  Observe();
  Rest();
  Vanish("tune-controller-0");
  EXPECT_THAT(Rest(), ElementsAre("create tune-controller-0", "delete tune-worker-1-0"));
  EXPECT_FALSE(pods_["tune-worker-0-0"]["metadata"].contains("deletionTimestamp"));
}

TEST_F(JobOperatorTest, AWrongSpecIsStatedAndForgottenWhenItIsRight) {
  object_["spec"]["template"] = {
      {"spec", {{"containers", JobJson::array({{{"name", "worker"}, {"args", {"x"}}}})}}}};
  Observe();
  EXPECT_THAT(Rest(), ElementsAre("event Failed"));
  EXPECT_THAT(Message(), HasSubstr("args of the worker container"));
  object_["spec"].erase("template");
  Observe();
  EXPECT_THAT(Rest(), ElementsAre("create tune-controller-0", "event Queued"));
}

TEST_F(JobOperatorTest, OthersJobsAreLeftAlone) {
  object_["spec"]["managedBy"] = "example.com/other";
  Observe();
  EXPECT_THAT(Rest(), IsEmpty());
}

TEST_F(JobOperatorTest, PodsOfAnEarlierJobOfThatNameAreNotItsOwn) {
  Train();
  object_ = JobObject();
  object_["metadata"]["uid"] = "u2";
  Observe();
  const std::vector<JobAction> actions = operator_.Advance(now_, wall_);
  ASSERT_FALSE(actions.empty());
  for (const JobAction& action : actions) {
    EXPECT_FALSE(std::holds_alternative<DeleteJobPod>(action));
    EXPECT_FALSE(std::holds_alternative<PatchJobPod>(action));
    if (!std::holds_alternative<CreateJobPod>(action)) continue;
    operator_.OnReply(action, ActionResult::kExists, "pod tune-controller-0 exists", now_);
  }
  EXPECT_TRUE(operator_.Controllers().empty());
}

TEST_F(JobOperatorTest, ARefusalIsRepeatedWithLongerPauses) {
  Observe();
  std::vector<Duration> pauses;
  Instant last = now_;
  while (pauses.size() < 5) {
    for (const JobAction& action : operator_.Advance(now_, wall_)) {
      const bool create = std::holds_alternative<CreateJobPod>(action);
      if (create) pauses.push_back(now_ - last);
      if (create) last = now_;
      operator_.OnReply(action, create ? ActionResult::kRefused : ActionResult::kDone, "no", now_);
    }
    if (!operator_.Advance(now_, wall_).empty()) continue;
    const auto next = operator_.NextDeadline();
    ASSERT_TRUE(next.has_value());
    now_ = std::max(now_, *next);
  }
  EXPECT_THAT(pauses, ElementsAre(seconds(0), seconds(1), seconds(2), seconds(4), seconds(8)));
}

TEST_F(JobOperatorTest, AConditionThatStaysKeepsItsTime) {
  Train();
  const JobJson before = object_["status"]["conditions"];
  Pass(minutes(1));
  const std::string uid = pods_["tune-controller-0"]["metadata"]["uid"];
  ControllerReport report = Report({"tune-worker-0-0", "tune-worker-1-0"});
  report.restarts = 1;
  report.fault = "worker 1 was killed by signal 9";
  operator_.OnReport("ns/tune", uid, report, now_);
  EXPECT_THAT(Rest(), ElementsAre("event Restarted"));
  EXPECT_EQ(object_["status"]["restarts"], 1);
  EXPECT_EQ(object_["status"]["conditions"], before);
}

TEST_F(JobOperatorTest, GoodputAloneIsWrittenSeldom) {
  Train();
  const std::string uid = pods_["tune-controller-0"]["metadata"]["uid"];
  ControllerReport report = Report({"tune-worker-0-0", "tune-worker-1-0"});
  report.goodput = 0.75;
  Pass(seconds(5));
  operator_.OnReport("ns/tune", uid, report, now_);
  EXPECT_THAT(operator_.Advance(now_, wall_), IsEmpty());
  Pass(seconds(10));
  operator_.OnReport("ns/tune", uid, report, now_);
  Rest();
  EXPECT_EQ(object_["status"]["goodput"], 0.75);
}

TEST_F(JobOperatorTest, AStatusIsWrittenOnlyOverTheOneThatWasObserved) {
  Observe();
  int statuses = 0;
  for (const JobAction& action : operator_.Advance(now_, wall_)) {
    const auto* patch = std::get_if<PatchJob>(&action);
    if (patch == nullptr) continue;
    ++statuses;
    EXPECT_EQ(patch->patch["metadata"]["resourceVersion"], "5");
    operator_.OnReply(action, ActionResult::kConflict, "it has changed", now_);
  }
  EXPECT_EQ(statuses, 1);
  // Not before the change is observed, and then at once.
  for (const JobAction& action : operator_.Advance(now_, wall_)) {
    EXPECT_FALSE(std::holds_alternative<PatchJob>(action));
  }
  object_["metadata"]["resourceVersion"] = "6";
  Observe();
  Rest();
  EXPECT_EQ(Phase(), "Queued");
  EXPECT_THAT(Message(), testing::Not(HasSubstr("changed"))) << "a conflict is no refusal";
}

TEST_F(JobOperatorTest, AnEndingControllerSaysNothingOfTheWorkers) {
  Train();
  const std::string before = pods_["tune-controller-0"]["metadata"]["uid"];
  Merge("tune-controller-0", R"({"metadata": {"deletionTimestamp": "2026-01-31T08:00:00Z"}})");
  Rest();
  Pass(minutes(4));
  EXPECT_THAT(Rest(), ElementsAre("create tune-controller-1"));
  StartController("tune-controller-1", "10.0.0.9");
  Rest();
  const std::string uid = pods_["tune-controller-1"]["metadata"]["uid"];
  for (int i = 0; i < 60; ++i) {
    operator_.OnReport("ns/tune", before, Report({}, false), now_);
    for (const std::string& did : Rest()) EXPECT_EQ(did.find("delete"), std::string::npos) << did;
    operator_.OnReport("ns/tune", uid, Report({"tune-worker-0-0", "tune-worker-1-0"}), now_);
    operator_.OnReport("ns/tune", before, Report({}, false), now_);
    for (const std::string& did : Rest()) EXPECT_EQ(did.find("delete"), std::string::npos) << did;
    EXPECT_EQ(Phase(), "Running") << i;
    Pass(seconds(10));
  }
}

TEST_F(JobOperatorTest, ANewOperatorKeepsThePhaseUntilAReportCanHaveCome) {
  Train();
  operator_ = JobOperator(Settings());
  operator_.OnTokenKeys(kKeys);
  Observe();
  for (const auto& [name, pod] : pods_) ObservePod(name);
  const JobJson before = object_["status"];
  EXPECT_THAT(Rest(), IsEmpty());
  Pass(seconds(29));
  EXPECT_THAT(Rest(), IsEmpty());
  EXPECT_EQ(object_["status"], before);
  Pass(seconds(1));
  EXPECT_THAT(Rest(), ElementsAre("event Restarting"));
  EXPECT_EQ(object_["status"]["goodput"], 0.5) << "the newest that is known";
  EXPECT_EQ(object_["status"]["conditions"].back()["reason"], "NoReport");
}

TEST_F(JobOperatorTest, APodThatWasMadeThoughTheReplyIsLostIsNoRefusal) {
  Observe();
  for (const JobAction& action : operator_.Advance(now_, wall_)) {
    if (std::holds_alternative<CreateJobPod>(action)) {
      Carry(action);
      operator_.OnReply(action, ActionResult::kExists, "it exists", now_);
      ObservePod("tune-controller-0");
    } else {
      Carry(action);
      operator_.OnReply(action, ActionResult::kDone, "", now_);
    }
  }
  StartController("tune-controller-0");
  Rest();
  EXPECT_EQ(Message(), "0 worker pods of 2 have a node");
}

TEST_F(JobOperatorTest, ARefusalOfAnEarlierSpecIsForgotten) {
  Observe();
  for (const JobAction& action : operator_.Advance(now_, wall_)) {
    if (!std::holds_alternative<CreateJobPod>(action)) Carry(action);
    const bool create = std::holds_alternative<CreateJobPod>(action);
    operator_.OnReply(action, create ? ActionResult::kRefused : ActionResult::kDone, "no", now_);
  }
  object_["metadata"]["generation"] = 2;
  Observe();
  Pass(seconds(1));
  Rest();
  StartController("tune-controller-0");
  Rest();
  EXPECT_EQ(Message(), "0 worker pods of 2 have a node");
}

TEST_F(JobOperatorTest, AControllerThatIsMadeLateOfAFinishedJobIsDeleted) {
  Train();
  pods_["tune-controller-1"] = pods_["tune-controller-0"];
  pods_["tune-controller-1"]["metadata"]["name"] = "tune-controller-1";
  pods_["tune-controller-1"]["metadata"]["uid"] = "late";
  pods_["tune-controller-1"]["metadata"]["labels"]["longhaul.dev/life"] = "1";
  Merge("tune-controller-0", R"({"status": {"phase": "Succeeded", "containerStatuses": [
      {"name": "controller", "state": {"terminated": {"exitCode": 0, "message":
       "{\"outcome\":\"succeeded\"}"}}}]}})");
  Rest();
  EXPECT_EQ(Phase(), "Succeeded");
  ObservePod("tune-controller-1");
  EXPECT_THAT(Rest(), ElementsAre("delete tune-controller-1"));
  EXPECT_FALSE(pods_["tune-controller-0"]["metadata"].contains("deletionTimestamp"));
}

TEST_F(JobOperatorTest, AFinalizerStaysWhileAPodMayBeMade) {
  Observe();
  std::optional<JobAction> create;
  for (const JobAction& action : operator_.Advance(now_, wall_)) {
    if (std::holds_alternative<CreateJobPod>(action)) {
      create = action;
    } else {
      Carry(action);
      operator_.OnReply(action, ActionResult::kDone, "", now_);
    }
  }
  ASSERT_TRUE(create.has_value());
  object_["metadata"]["deletionTimestamp"] = "2026-01-31T08:00:00Z";
  Observe();
  EXPECT_THAT(Rest(), IsEmpty()) << "it is under way";
  operator_.OnReply(*create, ActionResult::kDone, "", now_);
  EXPECT_THAT(Rest(), IsEmpty()) << "it is not observed yet";
  Carry(*create);
  EXPECT_THAT(Rest(), ElementsAre("delete tune-controller-0"));
  Vanish("tune-controller-0");
  EXPECT_THAT(Rest(), ElementsAre("job"));
}

TEST_F(JobOperatorTest, AFinalizerIsRemovedSomeTimeAfterACreationThatIsNotObserved) {
  Observe();
  for (const JobAction& action : operator_.Advance(now_, wall_)) {
    const bool create = std::holds_alternative<CreateJobPod>(action);
    if (!create) Carry(action);
    operator_.OnReply(action, create ? ActionResult::kGone : ActionResult::kDone, "", now_);
  }
  object_["metadata"]["deletionTimestamp"] = "2026-01-31T08:00:00Z";
  Observe();
  EXPECT_THAT(Rest(), IsEmpty());
  const auto next = operator_.NextDeadline();
  ASSERT_TRUE(next.has_value());
  Pass(*next - now_);
  EXPECT_THAT(Rest(), ElementsAre("job"));
}

TEST_F(JobOperatorTest, TheWorkersOfASuspendedJobDoNotAwaitALostController) {
  Train();
  object_["spec"]["suspend"] = true;
  Observe();
  Rest();
  Pass(minutes(4) - seconds(1));
  EXPECT_THAT(Rest(), IsEmpty());
  ASSERT_TRUE(operator_.NextDeadline().has_value());
  EXPECT_EQ(*operator_.NextDeadline(), now_ + seconds(1));
  Pass(seconds(1));
  EXPECT_THAT(Rest(), ElementsAre("delete tune-worker-0-0", "delete tune-worker-1-0"));
}

TEST_F(JobOperatorTest, APodWhoseLabelIsChangedLeavesTheJob) {
  Train();
  object_["metadata"]["deletionTimestamp"] = "2026-01-31T08:00:00Z";
  Merge("tune-worker-1-0", R"({"metadata": {"labels": {"longhaul.dev/job": "other"}}})");
  Observe();
  EXPECT_THAT(Rest(), ElementsAre("delete tune-controller-0"));
  Vanish("tune-controller-0");
  EXPECT_THAT(Rest(), ElementsAre("delete tune-worker-0-0"));
  Vanish("tune-worker-0-0");
  EXPECT_THAT(Rest(), ElementsAre("job"));
}

TEST_F(JobOperatorTest, TheWorkersStayWhileTheControllerCannotBeDeleted) {
  Train();
  object_["spec"]["suspend"] = true;
  Observe();
  int refused = 0;
  for (int i = 0; i < 30; ++i) {
    for (const JobAction& action : operator_.Advance(now_, wall_)) {
      if (const auto* remove = std::get_if<DeleteJobPod>(&action)) {
        EXPECT_EQ(remove->pod.name, "tune-controller-0") << "its last checkpoint needs them";
        operator_.OnReply(action, ActionResult::kRefused, "no", now_);
        ++refused;
        continue;
      }
      Carry(action);
      operator_.OnReply(action, ActionResult::kDone, "", now_);
    }
    Pass(seconds(20));
  }
  EXPECT_GT(refused, 5);
}

TEST_F(JobOperatorTest, AnOutcomeCountsOnceThePodHasSucceeded) {
  Train();
  // The container is started again: restartPolicy is OnFailure.
  Merge("tune-controller-0", R"({"status": {"containerStatuses": [{"name": "controller",
      "state": {"terminated": {"exitCode": 1, "message": "{\"outcome\":\"failed\"}"}}}]}})");
  Rest();
  EXPECT_NE(Phase(), "Failed");
}

TEST_F(JobOperatorTest, TheOutcomeOfAControllerThatIsDeletedIsOfAnEarlierSpec) {
  Train();
  object_["spec"]["job"]["command"] = {"other"};
  Observe();
  Rest();
  Merge("tune-controller-0", R"({"status": {"phase": "Succeeded", "containerStatuses": [
      {"name": "controller", "state": {"terminated": {"exitCode": 0, "message":
       "{\"outcome\":\"succeeded\"}"}}}]}})");
  Rest();
  EXPECT_EQ(Phase(), "Restarting");
  Vanish("tune-controller-0");
  EXPECT_THAT(Rest(), ElementsAre("create tune-controller-0"));
}

TEST_F(JobOperatorTest, OfTwoControllersTheOlderOneIsDeleted) {
  Train();
  pods_["tune-controller-1"] = pods_["tune-controller-0"];
  pods_["tune-controller-1"]["metadata"]["name"] = "tune-controller-1";
  pods_["tune-controller-1"]["metadata"]["uid"] = "late";
  pods_["tune-controller-1"]["metadata"]["labels"]["longhaul.dev/life"] = "1";
  ObservePod("tune-controller-1");
  const std::vector<std::string> did = Rest();
  EXPECT_THAT(did, testing::Contains("delete tune-controller-0"));
  EXPECT_THAT(did, testing::Not(testing::Contains("delete tune-controller-1")));
}

TEST_F(JobOperatorTest, NewKeysOfTokensAreWrittenToTheController) {
  Train();
  operator_.OnTokenKeys(R"({"keys":[1]})");
  EXPECT_THAT(Rest(), ElementsAre("patch tune-controller-0"));
  EXPECT_EQ(pods_["tune-controller-0"]["metadata"]["annotations"]["longhaul.dev/token-keys"],
            R"({"keys":[1]})");
}

TEST_F(JobOperatorTest, GatesStayWhileAWorkerIsMissing) {
  Observe();
  Rest();
  StartController("tune-controller-0");
  for (int turn = 0; turn < 5; ++turn) {
    for (const JobAction& action : operator_.Advance(now_, wall_)) {
      const auto* create = std::get_if<CreateJobPod>(&action);
      const bool refused = create != nullptr && create->pod.name == "tune-worker-1-0";
      EXPECT_FALSE(std::holds_alternative<PatchJobPod>(action));
      if (!refused) Carry(action);
      operator_.OnReply(action, refused ? ActionResult::kRefused : ActionResult::kDone, "quota",
                        now_);
    }
  }
  EXPECT_EQ(Message(), "quota");
  EXPECT_TRUE(pods_["tune-worker-0-0"]["spec"].contains("schedulingGates"));
}

TEST_F(JobOperatorTest, AWorkerThatDoesNotRunIsNotLost) {
  Observe();
  Rest();
  StartController("tune-controller-0");
  Rest();
  const std::string uid = pods_["tune-controller-0"]["metadata"]["uid"];
  for (int i = 0; i < 60; ++i) {
    operator_.OnReport("ns/tune", uid, Report({}, false), now_);
    EXPECT_THAT(Rest(), IsEmpty()) << i;
    Pass(seconds(10));
  }
}

TEST_F(JobOperatorTest, AtRestNothingIsDue) {
  Observe();
  Rest();
  StartController("tune-controller-0");
  Rest();
  Pass(minutes(10));
  EXPECT_THAT(operator_.Advance(now_, wall_), IsEmpty());
  EXPECT_EQ(operator_.NextDeadline(), std::nullopt);
  operator_.OnTokenKeys(R"({"keys":[1]})");
  Rest();
  Pass(minutes(10));
  EXPECT_THAT(operator_.Advance(now_, wall_), IsEmpty());
  EXPECT_EQ(operator_.NextDeadline(), std::nullopt);
}

TEST_F(JobOperatorTest, TheEndOfAReportIsDue) {
  Train();
  EXPECT_EQ(operator_.NextDeadline(), now_ + seconds(30));
}

TEST_F(JobOperatorTest, FinalizersAreWrittenOverThoseThatWereObserved) {
  object_["metadata"]["finalizers"] = JobJson::array({"other"});
  Observe();
  const std::vector<JobAction> added = operator_.Advance(now_, wall_);
  ASSERT_EQ(added.size(), 1u);
  const JobJson& meta = std::get<PatchJob>(added[0]).patch["metadata"];
  EXPECT_EQ(meta["resourceVersion"], "5");
  EXPECT_EQ(meta["finalizers"], JobJson::array({"other", "longhaul.dev/pods"}));
}

TEST_F(JobOperatorTest, AConflictWhoseCauseIsKnownIsTriedAgainAtOnce) {
  Observe();
  const std::vector<JobAction> actions = operator_.Advance(now_, wall_);
  object_["metadata"]["resourceVersion"] = "6";
  Observe();
  for (const JobAction& action : actions) {
    const bool job = std::holds_alternative<PatchJob>(action);
    operator_.OnReply(action, job ? ActionResult::kConflict : ActionResult::kDone, "", now_);
  }
  Rest();
  EXPECT_EQ(Phase(), "Queued");
}

TEST_F(JobOperatorTest, APodThatIsGoneLeavesNothingUnderWay) {
  Train();
  Merge("tune-controller-0", R"({"status": {"phase": "Failed", "reason": "Evicted"}})");
  for (const JobAction& action : operator_.Advance(now_, wall_)) {
    if (!std::holds_alternative<DeleteJobPod>(action)) Carry(action);
    operator_.OnReply(action, ActionResult::kDone, "", now_);
  }
  Vanish("tune-controller-0");
  EXPECT_THAT(Rest(), ElementsAre("create tune-controller-0"));
}

TEST_F(JobOperatorTest, APatienceEndsWithTheNextController) {
  Train();
  const char* const deleted = R"({"metadata": {"deletionTimestamp": "2026-01-31T08:00:00Z"}})";
  Merge("tune-controller-0", deleted);
  Rest();
  Pass(minutes(4));
  EXPECT_THAT(Rest(), ElementsAre("create tune-controller-1"));
  StartController("tune-controller-1");
  Rest();
  Merge("tune-controller-1", deleted);
  Rest();
  Pass(minutes(3));
  Rest();
  EXPECT_FALSE(pods_.contains("tune-controller-2")) << "it has a patience of its own";
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
