// What the operator does for a job.
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engines/kubernetes/jobs/job_operator_fixture.h"

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

TEST_F(JobOperatorTest, AWorkerThatVanishesAtOnceIsReplacedByItsNextLife) {
  Train();
  Vanish("tune-worker-1-0");
  EXPECT_THAT(Rest(), testing::Contains("create tune-worker-1-1"));
}

TEST_F(JobOperatorTest, AFailedWorkerIsDeletedAndReplaced) {
  Train();
  Recover();
  Merge("tune-worker-0-0", R"({"status": {"phase": "Failed", "reason": "OutOfnvidia.com/gpu"}})");
  EXPECT_THAT(Rest(), ElementsAre("create tune-worker-0-1", "delete tune-worker-0-0",
                                  "event Restarting", "patch tune-worker-0-1"));
}

TEST_F(JobOperatorTest, AWorkerThatFailsAtOnceIsReplacedWithLongerPauses) {
  Train();
  Recover();
  std::vector<Duration> pauses;
  Instant last = now_;
  for (int life = 0; life < 4; ++life) {
    const std::string pod = "tune-worker-0-" + std::to_string(life);
    const std::string next = "tune-worker-0-" + std::to_string(life + 1);
    Merge(pod, R"({"status": {"phase": "Failed", "reason": "OutOfcpu"}})");
    for (int i = 0; i < 100 && !pods_.contains(next); ++i) {
      Rest();
      if (!pods_.contains(next)) Pass(std::chrono::milliseconds(500));
    }
    pauses.push_back(now_ - last);
    last = now_;
  }
  EXPECT_THAT(pauses, ElementsAre(seconds(0), seconds(2), seconds(4), seconds(8)));
  Pass(minutes(11));
  Merge("tune-worker-0-4", R"({"status": {"phase": "Failed", "reason": "OutOfcpu"}})");
  EXPECT_THAT(Rest(), testing::Contains("create tune-worker-0-5")) << "it had lived for long";
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

class ElasticJobTest : public JobOperatorTest {
 protected:
  ElasticJobTest() { object_["spec"]["workers"] = {{"desired", 2}, {"max", 4}}; }
};

TEST_F(ElasticJobTest, GrowsByOneWorkerAtATimeWhileItTrains) {
  Train();
  ASSERT_TRUE(pods_.contains("tune-worker-2-0"));
  EXPECT_FALSE(pods_["tune-worker-2-0"]["spec"].contains("schedulingGates"));
  EXPECT_FALSE(pods_.contains("tune-worker-3-0"));
  EXPECT_EQ(object_["status"]["ready"], 2);
  // The first one has room, and the second one waits for ever.
  StartWorker("tune-worker-2-0");
  EXPECT_THAT(Rest(), ElementsAre("create tune-worker-3-0", "patch tune-worker-3-0"));
  operator_.OnReport("ns/tune", pods_["tune-controller-0"]["metadata"]["uid"],
                     Report({"tune-worker-0-0", "tune-worker-1-0", "tune-worker-2-0"}), now_);
  EXPECT_THAT(Rest(), IsEmpty());
  EXPECT_EQ(object_["status"]["ready"], 3);
  EXPECT_EQ(object_["status"]["desired"], 2);
  EXPECT_EQ(Phase(), "Running");
}

TEST_F(ElasticJobTest, DoesNotGrowWhileItRecovers) {
  Train();
  Recover();
  StartWorker("tune-worker-2-0");
  EXPECT_THAT(Rest(), ElementsAre("event Restarting"));
}

TEST_F(ElasticJobTest, RunsOnWhenItLosesItsExtraWorker) {
  Train();
  StartWorker("tune-worker-2-0");
  Rest();
  Vanish("tune-worker-2-0");
  Pass(minutes(1));
  operator_.OnReport("ns/tune", pods_["tune-controller-0"]["metadata"]["uid"],
                     Report({"tune-worker-0-0", "tune-worker-1-0"}), now_);
  EXPECT_THAT(Rest(), ElementsAre("create tune-worker-2-1", "patch tune-worker-2-1"));
  EXPECT_EQ(Phase(), "Running");
}

TEST_F(ElasticJobTest, AnExtraWorkerBecomesAUsualOneByReplacement) {
  Train();
  object_["spec"]["workers"]["desired"] = 3;
  Observe();
  Rest();
  Vanish("tune-controller-0");
  EXPECT_THAT(Rest(), ElementsAre("create tune-controller-0", "delete tune-worker-2-0"));
  StartController("tune-controller-0");
  Pass(seconds(1));
  EXPECT_THAT(Rest(), testing::Contains("create tune-worker-2-1"));
  EXPECT_FALSE(pods_["tune-worker-2-1"]["metadata"]["labels"].contains("longhaul.dev/extra"));
}

TEST_F(ElasticJobTest, SaysWhyNoExtraWorkerIsMadeAndRuns) {
  BeginTraining();
  for (int turn = 0; turn < 3; ++turn) {
    for (const JobAction& action : operator_.Advance(now_, wall_)) {
      const bool create = std::holds_alternative<CreateJobPod>(action);
      if (!create) Carry(action);
      operator_.OnReply(action, create ? ActionResult::kRefused : ActionResult::kDone,
                        create ? "no PriorityClass" : "", now_);
    }
  }
  EXPECT_EQ(Phase(), "Running");
  EXPECT_EQ(Message(), "no more workers can be made: no PriorityClass");
  Pass(seconds(5));
  EXPECT_THAT(Rest(), testing::Contains("create tune-worker-2-0"));
  EXPECT_EQ(Message(), "");
}

// Stops and starts: the controller first, which takes a last checkpoint.
TEST_F(JobOperatorTest, AChangeOfTheTemplateReplacesAllPods) {
  for (const char* change :
       {R"({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}})",
        R"({"spec": {"devices": {"resource": "nvidia.com/gpu", "perWorker": 1}}})",
        R"({"spec": {"runDirectory": "/data/run"}})"}) {
    SCOPED_TRACE(change);
    operator_ = JobOperator(Settings());
    operator_.OnTokenKeys(kKeys);
    pods_.clear();
    object_ = JobObject();
    Train();
    object_.merge_patch(JobJson::parse(change));
    Observe();
    EXPECT_THAT(Rest(), ElementsAre("delete tune-controller-0", "event Restarting"));
    Vanish("tune-controller-0");
    EXPECT_THAT(Rest(), ElementsAre("create tune-controller-0", "delete tune-worker-0-0",
                                    "delete tune-worker-1-0"));
    StartController("tune-controller-0");
    Pass(std::chrono::seconds(1));
    EXPECT_THAT(Rest(), testing::Contains("create tune-worker-0-1"));
    EXPECT_EQ(pods_["tune-worker-0-1"]["metadata"]["annotations"]["longhaul.dev/template"],
              pods_["tune-controller-0"]["metadata"]["annotations"]["longhaul.dev/template"]);
  }
}

TEST_F(JobOperatorTest, APodWithoutAHashIsLeftAlone) {
  Train();
  for (auto& [name, pod] : pods_) {
    pod["metadata"]["annotations"].erase("longhaul.dev/template");
    ObservePod(name);
  }
  EXPECT_THAT(Rest(), IsEmpty());
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
