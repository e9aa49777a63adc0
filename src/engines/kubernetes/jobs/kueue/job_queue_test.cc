#include "engines/kubernetes/jobs/kueue/job_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>

#include "engines/kubernetes/jobs/json_members.h"

namespace longhaul::engines::kubernetes::job_queue_test {
namespace {

using testing::HasSubstr;

const Instant kWall = InstantFromNanoseconds(1'769'846'400'000'000'000);  // 2026-01-31T08:00:00Z

class JobQueueTest : public testing::Test {
 protected:
  JobQueueTest() {
    object_ = JobJson::parse(R"({
      "metadata": {"name": "tune", "namespace": "ns", "uid": "u1", "resourceVersion": "5",
                   "labels": {"kueue.x-k8s.io/queue-name": "team"}},
      "spec": {"workers": {"min": 2, "desired": 4, "max": 6},
               "devices": {"resource": "nvidia.com/gpu", "perWorker": 8},
               "job": {"command": ["train"]},
               "template": {"spec": {"nodeSelector": {"disk": "fast"}, "containers": [
                 {"name": "worker", "resources": {"limits": {"memory": "64Gi"}}}]}}}})");
    objects_.SetServed(true);
    objects_.SetFlavor({"h100", {{{"pool", "h100"}}, JobJson::parse(R"([{"key": "gpu"}])")}});
    objects_.SetFlavor({"cpu", {{{"pool", "cpu"}}, JobJson::array()}});
    settings_.image = "longhaul:test";
  }

  LonghaulJob Job() const {
    Result<LonghaulJob> job = ReadLonghaulJob(object_);
    EXPECT_TRUE(job.ok()) << job.status();
    return *std::move(job);
  }
  QueueDecision Decide(JobWish wish = JobWish::kRun) const {
    const LonghaulJob job = Job();
    if (workload_.is_null()) return DecideQueue(job, nullptr, objects_, settings_, wish, kWall);
    const Result<Workload> workload = ReadWorkload(workload_);
    EXPECT_TRUE(workload.ok()) << workload.status();
    return DecideQueue(job, &*workload, objects_, settings_, wish, kWall);
  }
  // The Workload that the operator asks for exists.
  void Create() {
    const QueueDecision decision = Decide();
    ASSERT_TRUE(decision.when_stopped.has_value()) << decision.message;
    const auto* create = std::get_if<CreateWorkload>(&*decision.when_stopped);
    ASSERT_NE(create, nullptr);
    workload_ = create->object;
    workload_["metadata"]["uid"] = "w1";
    workload_["metadata"]["resourceVersion"] = "77";
  }
  void SetCondition(const char* type, bool is_true, const char* reason, const char* message) {
    JobJson& conditions = workload_["status"]["conditions"];
    if (conditions.is_null()) conditions = JobJson::array();
    const JobJson condition = {{"type", type},
                               {"status", is_true ? "True" : "False"},
                               {"reason", reason},
                               {"message", message},
                               {"lastTransitionTime", "2026-01-31T07:00:00Z"}};
    for (JobJson& each : conditions) {
      if (each["type"] == type) {
        each = condition;
        return;
      }
    }
    conditions.push_back(condition);
  }
  void Admit(int workers = 4) {
    workload_ = JobJson();
    Create();
    workload_["status"]["admission"] = JobJson::parse(R"({"clusterQueue": "all",
        "podSetAssignments": [
          {"name": "controller", "count": 1, "flavors": {"cpu": "cpu"}},
          {"name": "workers", "count": 4, "flavors": {"nvidia.com/gpu": "h100",
                                                      "memory": "h100"}}]})");
    workload_["status"]["admission"]["podSetAssignments"][1]["count"] = workers;
    SetCondition("QuotaReserved", true, "QuotaReserved", "");
    SetCondition("Admitted", true, "Admitted", "");
  }
  static JobJson ConditionOf(const JobAction& action, const char* type) {
    return ConditionIn(std::get<PatchWorkload>(action).patch["status"]["conditions"], type);
  }

  JobJson object_;
  JobJson workload_;
  QueueObjects objects_;
  PodSettings settings_;
};

TEST_F(JobQueueTest, WithoutTheLabelAJobRunsAtOnce) {
  object_["metadata"].erase("labels");
  const QueueDecision decision = Decide();
  EXPECT_TRUE(decision.runs);
  EXPECT_EQ(decision.workers, 4u);
  EXPECT_FALSE(decision.now || decision.when_stopped);
}

TEST_F(JobQueueTest, AWorkloadAsksForTheQuotaOfAllPods) {
  Create();
  EXPECT_EQ(workload_["apiVersion"], "kueue.x-k8s.io/v1beta2");
  EXPECT_EQ(workload_["metadata"]["name"], "longhaul-tune");
  EXPECT_EQ(workload_["metadata"]["ownerReferences"][0]["uid"], "u1");
  EXPECT_EQ(workload_["metadata"]["ownerReferences"][0]["controller"], true);
  const JobJson& spec = workload_["spec"];
  EXPECT_EQ(spec["queueName"], "team");
  EXPECT_FALSE(spec.contains("priority"));
  ASSERT_EQ(spec["podSets"].size(), 2u);
  const JobJson& controller = spec["podSets"][0];
  EXPECT_EQ(controller["name"], "controller");
  EXPECT_EQ(controller["count"], 1);
  EXPECT_EQ(controller["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"],
            "256Mi");
  const JobJson& workers = spec["podSets"][1];
  EXPECT_EQ(workers["name"], "workers");
  EXPECT_EQ(workers["count"], 4);
  EXPECT_EQ(workers["minCount"], 2);
  const JobJson& pod = workers["template"]["spec"];
  EXPECT_FALSE(pod.contains("schedulingGates"));
  // What has a limit alone, requests it.
  const JobJson& requests = pod["containers"][0]["resources"]["requests"];
  EXPECT_EQ(requests["nvidia.com/gpu"], "8");
  EXPECT_EQ(requests["memory"], "64Gi");
}

TEST_F(JobQueueTest, AJobOfOneSizeTakesNoLess) {
  object_["spec"]["workers"] = {{"desired", 4}};
  Create();
  EXPECT_FALSE(workload_["spec"]["podSets"][1].contains("minCount"));
}

TEST_F(JobQueueTest, ARequestForATopologyIsPassedOn) {
  object_["spec"]["template"]["metadata"]["annotations"] = {
      {"kueue.x-k8s.io/podset-required-topology", "rack"}};
  Create();
  EXPECT_EQ(workload_["spec"]["podSets"][1]["topologyRequest"]["required"], "rack");
}

TEST_F(JobQueueTest, ThePriorityIsThatOfItsClass) {
  objects_.SetPriority({PriorityKind::kWorkload, "urgent", 70, false});
  objects_.SetPriority({PriorityKind::kPod, "urgent", 5, false});
  objects_.SetPriority({PriorityKind::kPod, "usual", 3, true});
  Create();
  EXPECT_EQ(workload_["spec"]["priority"], 3);
  workload_ = JobJson();
  object_["spec"]["template"]["spec"]["priorityClassName"] = "urgent";
  Create();
  EXPECT_EQ(workload_["spec"]["priority"], 5);
  EXPECT_EQ(workload_["spec"]["priorityClassRef"]["kind"], "PriorityClass");
  EXPECT_EQ(workload_["spec"]["priorityClassRef"]["group"], "scheduling.k8s.io");
  workload_ = JobJson();
  object_["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "urgent";
  Create();
  EXPECT_EQ(workload_["spec"]["priority"], 70);
  EXPECT_EQ(workload_["spec"]["priorityClassRef"]["kind"], "WorkloadPriorityClass");
  EXPECT_EQ(workload_["spec"]["priorityClassRef"]["group"], "kueue.x-k8s.io");
  EXPECT_EQ(workload_["spec"]["priorityClassRef"]["name"], "urgent");
}

TEST_F(JobQueueTest, AnUnknownPriorityClassIsNamed) {
  object_["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "urgent";
  const QueueDecision decision = Decide();
  EXPECT_FALSE(decision.runs || decision.when_stopped);
  EXPECT_EQ(decision.reason, "NoPriorityClass");
  EXPECT_THAT(decision.message, HasSubstr("WorkloadPriorityClass urgent"));
}

TEST_F(JobQueueTest, WithoutKueueTheJobSaysSo) {
  objects_.SetServed(false);
  const QueueDecision decision = Decide();
  EXPECT_FALSE(decision.runs || decision.when_stopped);
  EXPECT_EQ(decision.reason, "NoKueue");
  EXPECT_THAT(decision.message, HasSubstr("install Kueue"));
}

TEST_F(JobQueueTest, AJobThatWaitsGivesKueuesReason) {
  Create();
  EXPECT_EQ(Decide().message, "waits in the queue team");
  SetCondition("QuotaReserved", false, "Pending", "insufficient unused quota for nvidia.com/gpu");
  QueueDecision decision = Decide();
  EXPECT_FALSE(decision.runs || decision.now || decision.when_stopped);
  EXPECT_EQ(decision.reason, "WaitsForQuota");
  EXPECT_EQ(decision.message, "insufficient unused quota for nvidia.com/gpu");
  // It has quota, and an admission check is not done.
  Admit();
  SetCondition("Admitted", false, "NoChecks", "waits for a check");
  decision = Decide();
  EXPECT_FALSE(decision.runs);
  EXPECT_EQ(decision.message, "waits for a check");
}

TEST_F(JobQueueTest, AnAdmittedJobRunsOnTheNodesOfItsFlavors) {
  Admit();
  const QueueDecision decision = Decide();
  ASSERT_TRUE(decision.runs) << decision.message;
  EXPECT_EQ(decision.workers, 4u);
  const JobJson worker = WorkerPod(Job(), settings_, 0, 0, {}, decision.worker);
  EXPECT_EQ(worker["spec"]["nodeSelector"].dump(), R"({"disk":"fast","pool":"h100"})");
  EXPECT_EQ(worker["spec"]["tolerations"].dump(), R"([{"key":"gpu"}])");
  const JobJson controller = ControllerPod(Job(), settings_, 0, "", "", decision.controller);
  EXPECT_EQ(controller["spec"]["nodeSelector"].dump(), R"({"pool":"cpu"})");
  EXPECT_FALSE(controller["spec"].contains("tolerations"));
}

TEST_F(JobQueueTest, WorkersAreOnTheNodesThatKueueHasChosen) {
  Admit();
  JobJson& sets = workload_["status"]["admission"]["podSetAssignments"];
  sets[0]["topologyAssignment"] = JobJson::parse(R"({"levels": ["host"], "slices": [
      {"domainCount": 1, "valuesPerLevel": [{"universal": "n9"}],
       "podCounts": {"universal": 1}}]})");
  sets[1]["topologyAssignment"] = JobJson::parse(R"({"levels": ["host"], "slices": [
      {"domainCount": 2, "valuesPerLevel": [{"individual": {"roots": ["n1", "n2"]}}],
       "podCounts": {"individual": [3, 1]}}]})");
  const QueueDecision decision = Decide();
  ASSERT_TRUE(decision.runs) << decision.message;
  EXPECT_EQ(decision.controller.labels.at("host"), "n9");
  EXPECT_EQ(decision.WorkerAt(0).labels.at("host"), "n1");
  EXPECT_EQ(decision.WorkerAt(2).labels.at("host"), "n1");
  EXPECT_EQ(decision.WorkerAt(3).labels.at("host"), "n2");
  EXPECT_EQ(decision.WorkerAt(3).labels.at("pool"), "h100");
}

TEST_F(JobQueueTest, AnAdmissionOfFewerWorkersMakesTheJobSmaller) {
  Admit(3);
  const QueueDecision decision = Decide();
  EXPECT_TRUE(decision.runs);
  EXPECT_EQ(decision.workers, 3u);
  object_["spec"]["job"]["resources"] = {{"nodes", 4}, {"processes_per_node", 8}};
  const Result<std::string> file = JobFileOf(WithWorkers(Job(), 3));
  ASSERT_TRUE(file.ok()) << file.status();
  const JobJson resources = JobJson::parse(*file)["resources"];
  EXPECT_EQ(resources["nodes"], 3);
  EXPECT_EQ(resources["minimum_nodes"], 2);
  EXPECT_FALSE(resources.contains("maximum_nodes"));
}

TEST_F(JobQueueTest, AnAdmissionThatCannotBeHonouredIsSaid) {
  Admit(1);
  EXPECT_EQ(Decide().reason, "NoAssignment");
  Admit(5);
  EXPECT_EQ(Decide().reason, "NoAssignment");
  Admit();
  objects_.RemoveFlavor("h100");
  EXPECT_EQ(Decide().reason, "NoFlavor");
  EXPECT_THAT(Decide().message, HasSubstr("h100"));
  EXPECT_FALSE(Decide().runs);
}

TEST_F(JobQueueTest, ReadinessIsReported) {
  Admit();
  EXPECT_FALSE(Decide().now);
  object_["status"]["phase"] = "Running";
  const QueueDecision decision = Decide();
  ASSERT_TRUE(decision.now);
  EXPECT_EQ(ConditionOf(*decision.now, "PodsReady")["status"], "True");
  // What Kueue has written stays.
  EXPECT_EQ(ConditionOf(*decision.now, "Admitted")["lastTransitionTime"], "2026-01-31T07:00:00Z");
  SetCondition("PodsReady", true, "Started", "");
  EXPECT_FALSE(Decide().now);
  object_["status"]["phase"] = "Restarting";
  EXPECT_EQ(ConditionOf(*Decide().now, "PodsReady")["status"], "False");
}

// Kueue's timeouts apply to two reasons alone (tests/kubernetes/kueue_test.py).
TEST_F(JobQueueTest, ReadinessHasTheReasonsOfKueuesTimeouts) {
  Admit();
  object_["status"]["phase"] = "Running";
  EXPECT_EQ(ConditionOf(*Decide().now, "PodsReady")["reason"], "Started");
  SetCondition("PodsReady", true, "Started", "");
  object_["status"]["phase"] = "Restarting";
  EXPECT_EQ(ConditionOf(*Decide().now, "PodsReady")["reason"], "WaitForRecovery");
  SetCondition("PodsReady", false, "WaitForRecovery", "");
  EXPECT_FALSE(Decide().now);
  object_["status"]["phase"] = "Running";
  EXPECT_EQ(ConditionOf(*Decide().now, "PodsReady")["reason"], "Recovered");
}

TEST_F(JobQueueTest, AnEvictedJobWaitsForItsStartAgain) {
  for (const bool ready : {true, false}) {
    Admit();
    SetCondition("PodsReady", ready, ready ? "Started" : "WaitForRecovery", "");
    SetCondition("Evicted", true, "PodsReadyTimeout", "exceeded");
    const JobJson condition = ConditionOf(*Decide().when_stopped, "PodsReady");
    EXPECT_EQ(condition["status"], "False") << ready;
    EXPECT_EQ(condition["reason"], "WaitForStart") << ready;
  }
  // A job that has never trained has no such condition.
  Admit();
  SetCondition("Evicted", true, "PodsReadyTimeout", "exceeded");
  EXPECT_TRUE(ConditionOf(*Decide().when_stopped, "PodsReady").is_null());
}

TEST_F(JobQueueTest, AnEvictedJobGivesItsQuotaBackInOneWrite) {
  Admit();
  SetCondition("PodsReady", true, "Started", "");
  SetCondition("Evicted", true, "Preempted", "to make room for ns/other");
  const QueueDecision decision = Decide();
  EXPECT_FALSE(decision.runs || decision.now);
  EXPECT_EQ(decision.reason, "Preempted");
  EXPECT_EQ(decision.message, "to make room for ns/other");
  ASSERT_TRUE(decision.when_stopped);
  const JobJson& patch = std::get<PatchWorkload>(*decision.when_stopped).patch;
  EXPECT_EQ(patch["metadata"]["resourceVersion"], "77");
  ASSERT_TRUE(patch["status"].contains("admission"));
  EXPECT_TRUE(patch["status"]["admission"].is_null());
  for (const char* type : {"QuotaReserved", "Admitted", "PodsReady"}) {
    const JobJson condition = ConditionOf(*decision.when_stopped, type);
    EXPECT_EQ(condition["status"], "False") << type;
    EXPECT_EQ(condition["lastTransitionTime"], "2026-01-31T08:00:00Z") << type;
  }
  EXPECT_EQ(ConditionOf(*decision.when_stopped, "Requeued")["status"], "True");
  EXPECT_EQ(ConditionOf(*decision.when_stopped, "Evicted")["status"], "True");
  // Then it waits again.
  workload_.merge_patch(patch);
  EXPECT_EQ(Decide().reason, "WaitsForQuota");
  EXPECT_FALSE(Decide().when_stopped);
}

TEST_F(JobQueueTest, AJobThatIsStoppedForGoodIsNotQueuedAgain) {
  Admit();
  SetCondition("Evicted", true, "Deactivated", "the workload is deactivated");
  EXPECT_EQ(ConditionOf(*Decide().when_stopped, "Requeued")["status"], "False");
}

// Kueue lets a Workload that is made active again return for the reason Deactivated alone
// (tests/kubernetes/kueue_test.py).
TEST_F(JobQueueTest, ADeactivatedJobIsReleasedSoThatItCanReturn) {
  Admit();
  workload_["spec"]["active"] = false;
  SetCondition("DeactivationTarget", true, "RequeuingLimitExceeded", "too often");
  SetCondition("Evicted", true, "DeactivatedDueToRequeuingLimitExceeded", "too often");
  EXPECT_EQ(Decide().reason, "DeactivatedDueToRequeuingLimitExceeded");
  const JobAction release = *Decide().when_stopped;
  EXPECT_EQ(ConditionOf(release, "Requeued")["status"], "False");
  EXPECT_EQ(ConditionOf(release, "Requeued")["reason"], "Deactivated");
  EXPECT_TRUE(ConditionOf(release, "DeactivationTarget").is_null());
  // Then its message says what to do.
  workload_.merge_patch(std::get<PatchWorkload>(release).patch);
  EXPECT_EQ(Decide().reason, "Deactivated");
  EXPECT_EQ(Decide().message,
            "too often; spec.active of the Workload longhaul-tune is false: set it to true to let "
            "the job wait for quota again");
  EXPECT_FALSE(Decide().when_stopped);
  workload_["spec"]["active"] = true;
  EXPECT_EQ(Decide().reason, "WaitsForQuota");
  EXPECT_FALSE(Decide().when_stopped);
}

TEST_F(JobQueueTest, ARequestToDeactivateStaysUntilKueueHasActed) {
  Admit();
  SetCondition("DeactivationTarget", true, "AdmissionCheck", "rejected");
  SetCondition("Evicted", true, "Preempted", "to make room");
  const JobAction release = *Decide().when_stopped;
  EXPECT_EQ(ConditionOf(release, "DeactivationTarget")["status"], "True");
  EXPECT_EQ(ConditionOf(release, "Requeued")["reason"], "Preempted");
  workload_.merge_patch(std::get<PatchWorkload>(release).patch);
  EXPECT_FALSE(Decide().when_stopped);
  // Kueue leaves the condition in a Workload that was evicted before.
  workload_["spec"]["active"] = false;
  const QueueDecision decision = Decide();
  ASSERT_TRUE(decision.when_stopped);
  EXPECT_TRUE(ConditionOf(*decision.when_stopped, "DeactivationTarget").is_null());
  EXPECT_EQ(ConditionOf(*decision.when_stopped, "Requeued")["status"], "True");
  const JobJson& patch = std::get<PatchWorkload>(*decision.when_stopped).patch;
  EXPECT_EQ(patch["metadata"]["resourceVersion"], "77");
  EXPECT_FALSE(patch["status"].contains("admission"));
  workload_.merge_patch(patch);
  EXPECT_FALSE(Decide().when_stopped);
}

TEST_F(JobQueueTest, AChangeOfWhatIsAskedMakesAnotherWorkload) {
  const auto asks_anew = [&] {
    const QueueDecision decision = Decide();
    EXPECT_FALSE(decision.runs);
    const auto* action = decision.when_stopped ? &*decision.when_stopped : nullptr;
    return action != nullptr && std::get_if<DeleteWorkload>(action) != nullptr &&
           std::get<DeleteWorkload>(*action).workload.uid == "w1";
  };
  const JobJson original = object_;
  for (const char* change :
       {R"({"spec": {"workers": {"desired": 5}}})", R"({"spec": {"workers": {"min": 1}}})",
        R"({"spec": {"devices": {"perWorker": 4}}})",
        R"({"spec": {"template": {"spec": {"nodeSelector": null}}}})",
        R"({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}})"}) {
    object_ = original;
    Admit();
    object_.merge_patch(JobJson::parse(change));
    EXPECT_TRUE(asks_anew()) << change;
    workload_ = JobJson();
  }
  object_ = original;
  Admit();
  object_["spec"]["job"]["command"] = {"other"};
  EXPECT_TRUE(Decide().runs);
}

TEST_F(JobQueueTest, AWorkloadThatSomebodyHasFinishedIsReplaced) {
  Admit();
  SetCondition("Finished", true, "Succeeded", "");
  const QueueDecision decision = Decide();
  EXPECT_FALSE(decision.runs);
  ASSERT_TRUE(decision.when_stopped);
  EXPECT_TRUE(std::holds_alternative<DeleteWorkload>(*decision.when_stopped));
}

TEST_F(JobQueueTest, ALabelOfTheTemplateIsNotReplaced) {
  object_["spec"]["template"]["spec"]["nodeSelector"] = {{"pool", "mine"}};
  Admit();
  const JobJson worker = WorkerPod(Job(), settings_, 0, 0, {}, Decide().worker);
  EXPECT_EQ(worker["spec"]["nodeSelector"]["pool"], "mine");
}

TEST_F(JobQueueTest, AnotherPriorityMovesAJobThatWaitsAndNotOneThatRuns) {
  objects_.SetPriority({PriorityKind::kWorkload, "urgent", 70, false});
  Create();
  object_["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "urgent";
  ASSERT_TRUE(Decide().when_stopped);
  EXPECT_TRUE(std::holds_alternative<DeleteWorkload>(*Decide().when_stopped));
  workload_ = JobJson();
  object_["metadata"]["labels"].erase("kueue.x-k8s.io/priority-class");
  Admit();
  object_["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "urgent";
  EXPECT_TRUE(Decide().runs);
}

TEST_F(JobQueueTest, AStoppedJobHasNoWorkload) {
  EXPECT_FALSE(Decide(JobWish::kStop).when_stopped);
  Admit();
  const QueueDecision decision = Decide(JobWish::kStop);
  EXPECT_FALSE(decision.runs || decision.now);
  ASSERT_TRUE(decision.when_stopped);
  EXPECT_TRUE(std::holds_alternative<DeleteWorkload>(*decision.when_stopped));
  workload_["metadata"]["deletionTimestamp"] = "2026-01-31T08:00:00Z";
  EXPECT_FALSE(Decide(JobWish::kStop).when_stopped);
}

TEST_F(JobQueueTest, AFinishedJobSaysSoOnce) {
  Admit();
  object_["status"]["phase"] = "Succeeded";
  const QueueDecision decision = Decide(JobWish::kFinish);
  ASSERT_TRUE(decision.when_stopped);
  const JobJson finished = ConditionOf(*decision.when_stopped, "Finished");
  EXPECT_EQ(finished["status"], "True");
  EXPECT_EQ(finished["reason"], "Succeeded");
  EXPECT_FALSE(
      std::get<PatchWorkload>(*decision.when_stopped).patch["status"].contains("admission"));
  SetCondition("Finished", true, "Succeeded", "");
  EXPECT_FALSE(Decide(JobWish::kFinish).when_stopped);
}

TEST_F(JobQueueTest, AJobThatLeavesItsQueueRunsWithoutAWorkload) {
  Admit();
  object_["metadata"].erase("labels");
  const QueueDecision decision = Decide();
  EXPECT_TRUE(decision.runs);
  ASSERT_TRUE(decision.now);
  EXPECT_TRUE(std::holds_alternative<DeleteWorkload>(*decision.now));
}

TEST_F(JobQueueTest, NamesOfWorkloadsAreThoseOfJobs) {
  EXPECT_EQ(JobKeyOfWorkload("ns", WorkloadName(Job())), "ns/tune");
  EXPECT_EQ(JobKeyOfWorkload("ns", "job-tune"), "");
}

}  // namespace
}  // namespace longhaul::engines::kubernetes::job_queue_test
