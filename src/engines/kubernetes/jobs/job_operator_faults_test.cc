// What the operator does when messages, pods and operators are lost or late.
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

TEST_F(JobOperatorTest, AFinalizerStaysThoughThePodThatIsMadeHasTheNameOfAnother) {
  Observe();
  for (const JobAction& action : operator_.Advance(now_, wall_)) {
    const auto* create = std::get_if<CreateJobPod>(&action);
    if (create == nullptr) continue;
    pods_["tune-controller-0"] = create->object;
    pods_["tune-controller-0"]["metadata"]["uid"] = "other";
    pods_["tune-controller-0"]["metadata"]["ownerReferences"][0]["uid"] = "other";
  }
  ObservePod("tune-controller-0");
  object_["metadata"]["deletionTimestamp"] = "2026-01-31T08:00:00Z";
  Observe();
  EXPECT_THAT(Rest(), IsEmpty()) << "the creation is under way";
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
