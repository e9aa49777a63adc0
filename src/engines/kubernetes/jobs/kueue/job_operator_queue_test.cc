// What the operator does for a job in a queue of Kueue.
#include <string>
#include <variant>
#include <vector>

#include "engines/kubernetes/jobs/job_operator_fixture.h"

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

class JobOperatorQueueTest : public JobOperatorTest {
 protected:
  JobOperatorQueueTest() {
    object_["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team";
    operator_.ChangeQueues([](QueueObjects& queues) {
      queues.SetServed(true);
      queues.SetFlavor({"a", {{{"pool", "a"}}, JobJson::array()}});
    });
  }
  // Kueue writes these conditions.
  void Write(std::vector<std::pair<std::string, std::string>> conditions) {
    JobJson& list = workload_["status"]["conditions"];
    if (!list.is_array()) list = JobJson::array();
    for (const auto& condition : conditions) {
      std::erase_if(list.get_ref<JobJson::array_t&>(),
                    [&](const JobJson& each) { return each["type"] == condition.first; });
      list.push_back({{"type", condition.first},
                      {"status", condition.second},
                      {"reason", "Preempted"},
                      {"message", "says Kueue"},
                      {"lastTransitionTime", "2026-01-31T08:00:00Z"}});
    }
    ObserveWorkload();
  }
  void Admit(int workers = 2) {
    workload_["status"]["admission"] = {
        {"podSetAssignments",
         JobJson::array({{{"name", "controller"}, {"count", 1}, {"flavors", {{"cpu", "a"}}}},
                         {{"name", "workers"}, {"count", workers}, {"flavors", {{"cpu", "a"}}}}})}};
    Write({{"QuotaReserved", "True"}, {"Admitted", "True"}, {"Evicted", "False"}});
  }
  void Evict() { Write({{"Evicted", "True"}}); }
  void TrainAdmitted() {
    Observe();
    Rest();
    Admit();
    Train();
  }
};

TEST_F(JobOperatorQueueTest, AJobWaitsSuspendedUntilItIsAdmitted) {
  Observe();
  EXPECT_THAT(Rest(), ElementsAre("create longhaul-tune", "event Suspended"));
  EXPECT_EQ(Phase(), "Suspended");
  Write({{"QuotaReserved", "False"}});
  Rest();
  EXPECT_EQ(Message(), "says Kueue");
  EXPECT_THAT(pods_, IsEmpty());
  Admit();
  EXPECT_THAT(Rest(), ElementsAre("create tune-controller-0", "event Queued"));
  EXPECT_EQ(pods_["tune-controller-0"]["spec"]["nodeSelector"]["pool"], "a");
  StartController("tune-controller-0");
  Rest();
  EXPECT_EQ(pods_["tune-worker-0-0"]["spec"]["nodeSelector"]["pool"], "a");
}

TEST_F(JobOperatorQueueTest, AnEvictedJobGivesItsQuotaBackAfterItsLastPod) {
  TrainAdmitted();
  Evict();
  EXPECT_THAT(Rest(), ElementsAre("delete tune-controller-0", "event Suspended"));
  EXPECT_EQ(Phase(), "Suspended");
  Vanish("tune-controller-0");
  EXPECT_THAT(Rest(), ElementsAre("delete tune-worker-0-0", "delete tune-worker-1-0"));
  Vanish("tune-worker-0-0");
  EXPECT_THAT(Rest(), IsEmpty());
  EXPECT_TRUE(workload_["status"]["admission"].is_object());
  Vanish("tune-worker-1-0");
  EXPECT_THAT(Rest(), ElementsAre("patch longhaul-tune"));
  EXPECT_FALSE(workload_["status"].contains("admission"));
  EXPECT_THAT(Rest(), IsEmpty());
  // It is admitted again.
  Admit();
  EXPECT_THAT(Rest(), Contains("create tune-controller-0"));
}

TEST_F(JobOperatorQueueTest, ADeactivatedJobReturnsWhenItIsMadeActiveAgain) {
  TrainAdmitted();
  workload_["spec"]["active"] = false;
  Write({{"DeactivationTarget", "True"}, {"Evicted", "True"}});
  Rest();
  for (const char* pod : {"tune-controller-0", "tune-worker-0-0", "tune-worker-1-0"}) {
    Vanish(pod);
    Rest();
  }
  EXPECT_EQ(workload_["status"].dump().find("DeactivationTarget"), std::string::npos);
  EXPECT_THAT(Message(), testing::HasSubstr("spec.active of the Workload longhaul-tune is false"));
  workload_["spec"]["active"] = true;
  ObserveWorkload();
  Rest();
  EXPECT_THAT(Message(), Not(testing::HasSubstr("spec.active")));
  Admit();
  EXPECT_THAT(Rest(), Contains("create tune-controller-0"));
}

TEST_F(JobOperatorQueueTest, QuotaIsKeptWhileAPodMayBeMade) {
  Observe();
  Rest();
  Admit();
  // The request for the controller pod gets no answer.
  const std::vector<JobAction> actions = operator_.Advance(now_, wall_);
  for (const JobAction& action : actions) {
    if (!std::holds_alternative<CreateJobPod>(action)) continue;
    operator_.OnReply(action, ActionResult::kRefused, "no answer", now_);
  }
  Evict();
  EXPECT_THAT(Rest(), Not(Contains("patch longhaul-tune")));
  Pass(seconds(11));
  EXPECT_THAT(Rest(), Contains("patch longhaul-tune"));
}

TEST_F(JobOperatorQueueTest, AnAdmissionOfFewerWorkersIsARunOfFewer) {
  object_["spec"]["workers"] = {{"min", 1}, {"desired", 2}};
  Observe();
  Rest();
  Admit(1);
  Rest();
  StartController("tune-controller-0");
  EXPECT_THAT(Rest(), ElementsAre("create tune-worker-0-0", "patch tune-worker-0-0"));
  EXPECT_EQ(object_["status"]["desired"], 1);
}

TEST_F(JobOperatorQueueTest, AJobDoesNotGrowBeyondWhatItsQueueHasAdmitted) {
  object_["spec"]["workers"] = {{"min", 1}, {"desired", 2}, {"max", 4}};
  TrainAdmitted();
  EXPECT_EQ(pods_.size(), 3u);
  EXPECT_THAT(Rest(), IsEmpty());
}

TEST_F(JobOperatorQueueTest, ASuspendedJobLeavesItsQueue) {
  TrainAdmitted();
  object_["spec"]["suspend"] = true;
  Observe();
  Rest();
  Vanish("tune-controller-0");
  Rest();
  Vanish("tune-worker-0-0");
  EXPECT_THAT(Rest(), Not(Contains("delete longhaul-tune")));
  Vanish("tune-worker-1-0");
  EXPECT_THAT(Rest(), Contains("delete longhaul-tune"));
  EXPECT_EQ(Message(), "spec.suspend is true");
  object_["spec"]["suspend"] = false;
  Observe();
  EXPECT_THAT(Rest(), ElementsAre("create longhaul-tune"));
  // It begins with first lives.
  Admit();
  Rest();
  StartController("tune-controller-0");
  EXPECT_THAT(Rest(), Contains("create tune-worker-0-0"));
}

TEST_F(JobOperatorQueueTest, ADeletedJobDeletesItsWorkloadBeforeItIsGone) {
  Observe();
  Rest();
  object_["metadata"]["deletionTimestamp"] = "2026-01-31T08:00:00Z";
  Observe();
  EXPECT_THAT(Rest(), ElementsAre("delete longhaul-tune", "job"));
  EXPECT_EQ(object_["metadata"]["finalizers"], JobJson::array());
}

TEST_F(JobOperatorQueueTest, AFinishedJobGivesItsQuotaBackWhenItsWorkersAreGone) {
  TrainAdmitted();
  EXPECT_EQ(workload_["status"]["conditions"].back()["type"], "PodsReady");
  Merge("tune-controller-0", R"({"status": {"phase": "Succeeded", "containerStatuses": [
      {"name": "controller", "state": {"terminated": {"exitCode": 0,
       "message": "{\"outcome\": \"succeeded\", \"message\": \"done\"}"}}}]}})");
  EXPECT_THAT(Rest(), Contains("delete tune-worker-0-0"));
  EXPECT_EQ(Phase(), "Succeeded");
  Vanish("tune-worker-0-0");
  EXPECT_THAT(Rest(), IsEmpty());
  Vanish("tune-worker-1-0");
  EXPECT_THAT(Rest(), ElementsAre("patch longhaul-tune"));
  EXPECT_EQ(workload_["status"]["conditions"].back()["type"], "Finished");
}

TEST_F(JobOperatorQueueTest, ARefusedWorkloadIsExplained) {
  Observe();
  for (const JobAction& action : operator_.Advance(now_, wall_)) {
    const bool create = std::holds_alternative<CreateWorkload>(action);
    operator_.OnReply(action, create ? ActionResult::kRefused : ActionResult::kDone,
                      create ? "no right to create workloads" : "", now_);
    if (!create) Carry(action);
  }
  Rest();
  EXPECT_EQ(Message(), "no right to create workloads");
  Pass(seconds(11));
  EXPECT_THAT(Rest(), Contains("create longhaul-tune"));
  EXPECT_EQ(Message(), "waits in the queue team");
}

TEST_F(JobOperatorQueueTest, AWorkloadOfAnotherJobIsLeftAlone) {
  Observe();
  Rest();
  workload_["metadata"]["ownerReferences"][0]["uid"] = "other";
  Admit();
  for (int turn = 0; turn < 3; ++turn) {
    for (const JobAction& action : operator_.Advance(now_, wall_)) {
      EXPECT_FALSE(std::holds_alternative<CreateJobPod>(action));
      const bool create = std::holds_alternative<CreateWorkload>(action);
      if (std::holds_alternative<PatchJob>(action)) Carry(action);
      operator_.OnReply(action, create ? ActionResult::kExists : ActionResult::kDone,
                        create ? "longhaul-tune exists" : "", now_);
    }
    Pass(seconds(11));
  }
  EXPECT_EQ(Message(), "longhaul-tune exists");
}

TEST_F(JobOperatorQueueTest, AChangedRequestStopsTheJobAndAsksAnew) {
  TrainAdmitted();
  object_["spec"]["workers"] = {{"desired", 3}};
  Observe();
  EXPECT_THAT(Rest(), Contains("delete tune-controller-0"));
  Vanish("tune-controller-0");
  Rest();
  Vanish("tune-worker-0-0");
  Vanish("tune-worker-1-0");
  EXPECT_THAT(Rest(), ElementsAre("create longhaul-tune", "delete longhaul-tune"));
  EXPECT_EQ(workload_["spec"]["podSets"][1]["count"], 3);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
