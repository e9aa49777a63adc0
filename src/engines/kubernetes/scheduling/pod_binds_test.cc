// The pod scheduler by itself: the test gives it objects and the answers to its binds. Tests with a
// simulated API server are in pod_scheduler_test.cc.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "engines/kubernetes/scheduling/pod_scheduler.h"

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

Node ReadyNode(const std::string& name) {
  Node node;
  node.meta.name = name;
  node.capacity = {{"pods", Quantity::FromUnits(9)}, {"nvidia.com/gpu", Quantity::FromUnits(8)}};
  node.allocatable = node.capacity;
  node.conditions.push_back({"Ready", "True", ""});
  return node;
}

// Without a name.
Pod PodOfOurs(int64_t gpus) {
  Pod pod;
  pod.meta.namespace_name = "ns";
  pod.scheduler_name = "longhaul";
  pod.requests = {{"nvidia.com/gpu", Quantity::FromUnits(gpus)}};
  return pod;
}

TEST(PodScheduler, AClaimThatIsGoneWhenABindWasRefusedIsWaitedFor) {
  PodScheduler scheduler({});
  scheduler.OnNode(ReadyNode("n0"));
  Volume volume;
  volume.meta.name = "pv";
  scheduler.volumes().SetVolume(volume);
  VolumeClaim claim;
  claim.meta.namespace_name = "ns";
  claim.meta.name = "data";
  claim.volume = "pv";
  claim.phase = "Bound";
  scheduler.volumes().SetClaim(claim);
  Pod pod;
  pod.meta.namespace_name = "ns";
  pod.meta.name = pod.meta.uid = "p";
  pod.scheduler_name = "longhaul";
  pod.volume_claims = {"data"};
  scheduler.OnPod(pod);
  Instant now = InstantFromNanoseconds(1'000'000'000'000);
  ASSERT_EQ(scheduler.Advance(now, 0).size(), 1u);
  scheduler.volumes().RemoveClaim("ns/data");
  EXPECT_TRUE(scheduler.Advance(now += seconds(1), 0).empty());
  scheduler.OnBind({"ns", "p", "p"}, BindResult::kRefused, "why", now);
  EXPECT_TRUE(scheduler.Advance(now += minutes(1), 0).empty());
  EXPECT_EQ(scheduler.WhyNotBound("ns/p"), "It waits: claim 'data' does not exist.");
  EXPECT_TRUE(scheduler.CheckInvariants().ok());
}

// The server answers one bind with 429, or with 500 and has not done it. Other pods wait for the
// place.
TEST(PodScheduler, AGangKeepsThePlaceOfABindThatIsSentAgain) {
  PodScheduler scheduler({});
  for (const char* name : {"n0", "n1"}) scheduler.OnNode(ReadyNode(name));
  Pod pod = PodOfOurs(4);
  pod.meta.labels["scheduling.x-k8s.io/pod-group"] = "g";
  pod.meta.annotations["longhaul.dev/min-member"] = "4";
  std::map<std::string, Pod> pods;
  for (const char* name : {"g-0", "g-1", "g-2", "g-3"}) {
    pod.meta.name = pod.meta.uid = name;
    scheduler.OnPod(pods[name] = pod);
  }
  pod.meta.labels.clear();
  pod.meta.annotations.clear();
  pod.meta.name = pod.meta.uid = "other";
  scheduler.OnPod(pod);
  Instant now = InstantFromNanoseconds(1'000'000'000'000);
  std::set<std::string> bound;
  std::map<std::string, int> binds;
  // Steps shorter than the time until a bind is sent again.
  for (int turn = 0; turn < 200; ++turn) {
    for (const PodAction& action : scheduler.Advance(now += milliseconds(100), 0)) {
      if (const auto* read = std::get_if<ReadPodAgain>(&action)) {
        scheduler.OnRead(pods.at(read->pod.name));
      }
      const auto* bind = std::get_if<BindPod>(&action);
      if (bind == nullptr) continue;
      const bool first = ++binds[bind->pod.name] == 1;
      BindResult result = BindResult::kBound;
      if (first && bind->pod.name == "g-1") result = BindResult::kBusy;
      if (first && bind->pod.name == "g-2") result = BindResult::kUnknown;
      scheduler.OnBind(bind->pod, result, "busy", now);
      if (result == BindResult::kBound) bound.insert(bind->pod.name);
    }
    EXPECT_TRUE(scheduler.CheckInvariants().ok());
  }
  EXPECT_EQ(bound, (std::set<std::string>{"g-0", "g-1", "g-2", "g-3"}));
}

// As when another scheduler has bound it there, before the bind is sent again.
TEST(PodScheduler, ABindIsNotSentAgainToANodeThatOtherPodsFillByNow) {
  PodScheduler scheduler({});
  for (const char* name : {"n0", "n1"}) scheduler.OnNode(ReadyNode(name));
  Pod pod = PodOfOurs(8);
  pod.meta.name = pod.meta.uid = "p";
  scheduler.OnPod(pod);
  Instant now = InstantFromNanoseconds(1'000'000'000'000);
  const std::vector<PodAction> first = scheduler.Advance(now, 0);
  ASSERT_EQ(first.size(), 1u);
  const auto& bind = std::get<BindPod>(first[0]);
  scheduler.OnBind(bind.pod, BindResult::kBusy, "busy", now);
  Pod other = PodOfOurs(1);
  other.meta.name = other.meta.uid = "other";
  other.node_name = bind.node;
  scheduler.OnPod(other);
  std::vector<std::string> nodes;
  for (int turn = 0; turn < 100; ++turn) {
    for (const PodAction& action : scheduler.Advance(now += milliseconds(100), 0)) {
      const auto* again = std::get_if<BindPod>(&action);
      if (again == nullptr) continue;
      nodes.push_back(again->node);
      scheduler.OnBind(again->pod, BindResult::kBound, "", now);
    }
    EXPECT_TRUE(scheduler.CheckInvariants().ok());
  }
  EXPECT_EQ(nodes, std::vector<std::string>{bind.node == "n0" ? "n1" : "n0"});
}

class TwoNodesTest : public testing::Test {
 protected:
  TwoNodesTest() {
    for (const char* name : {"n0", "n1"}) scheduler_.OnNode(ReadyNode(name));
  }
  // Two pods of eight GPUs.
  void AddGang(const std::string& name, int32_t priority) {
    Pod pod = PodOfOurs(8);
    pod.priority = priority;
    pod.meta.labels["scheduling.x-k8s.io/pod-group"] = name;
    pod.meta.annotations["longhaul.dev/min-member"] = "2";
    for (const char* member : {"-0", "-1"}) {
      pod.meta.name = pod.meta.uid = name + member;
      scheduler_.OnPod(pod);
    }
  }
  std::vector<PodAction> Advance(Duration time) {
    std::vector<PodAction> actions = scheduler_.Advance(now_ += time, 0);
    std::erase_if(actions, [](const PodAction& action) {
      return std::holds_alternative<RecordPodEvent>(action);
    });
    EXPECT_TRUE(scheduler_.CheckInvariants().ok());
    return actions;
  }

  PodScheduler scheduler_{PodSchedulerSettings{}};
  Instant now_ = InstantFromNanoseconds(1'000'000'000'000);
};

TEST_F(TwoNodesTest, ABindThatIsDueWhenAnotherNodeVanishesIsSentAgain) {
  AddGang("g", 0);
  const std::vector<PodAction> binds = Advance(seconds(1));
  ASSERT_EQ(binds.size(), 2u);
  const auto& first = std::get<BindPod>(binds[0]);
  const auto& second = std::get<BindPod>(binds[1]);
  scheduler_.OnBind(first.pod, BindResult::kBound, "", now_);
  scheduler_.OnBind(second.pod, BindResult::kBusy, "busy", now_);
  EXPECT_TRUE(Advance(milliseconds(1)).empty());
  scheduler_.OnNodeGone(first.node);
  const std::vector<PodAction> again = Advance(seconds(30));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(std::get<BindPod>(again[0]).pod, second.pod);
}

TEST_F(TwoNodesTest, AGangIsPreemptedWholeAfterOneOfItsNodesHasComeBack) {
  AddGang("low", 0);
  for (const PodAction& bind : Advance(seconds(1))) {
    scheduler_.OnBind(std::get<BindPod>(bind).pod, BindResult::kBound, "", now_);
  }
  Advance(seconds(1));
  scheduler_.OnNodeGone("n1");
  Advance(seconds(1));
  scheduler_.OnNode(ReadyNode("n1"));
  Advance(seconds(1));
  AddGang("high", 100);
  std::set<std::string> removed;
  for (const PodAction& action : Advance(minutes(1))) {
    if (const auto* remove = std::get_if<RemovePod>(&action)) removed.insert(remove->pod.name);
  }
  EXPECT_EQ(removed, (std::set<std::string>{"low-0", "low-1"}));
}

// UndefinedBehaviorSanitizer reports an overflow if its score counts what is missing.
TEST(PodScheduler, ANodeOfWhichOthersUseMoreThanItHasIsScored) {
  PodScheduler scheduler({});
  Node node = ReadyNode("n0");
  node.allocatable["cpu"] = Quantity::FromUnits(0);
  scheduler.OnNode(node);
  Pod pod;
  pod.meta.namespace_name = "ns";
  pod.meta.name = pod.meta.uid = "other";
  pod.node_name = "n0";
  pod.requests = {{"cpu", Quantity::FromUnits(1'000'000)}};
  scheduler.OnPod(pod);
  pod.meta.name = pod.meta.uid = "ours";
  pod.node_name.clear();
  pod.scheduler_name = "longhaul";
  pod.requests = {{"nvidia.com/gpu", Quantity::FromUnits(1)}};
  scheduler.OnPod(pod);
  const Instant now = InstantFromNanoseconds(1'000'000'000'000);
  EXPECT_EQ(scheduler.Advance(now, 0).size(), 1u);
}

TEST(PodScheduler, FollowsAPodThatSomebodyElseBoundElsewhere) {
  PodScheduler scheduler({});
  for (const char* name : {"n0", "n1"}) scheduler.OnNode(ReadyNode(name));
  Pod pod = PodOfOurs(8);
  Instant now = InstantFromNanoseconds(1'000'000'000'000);
  const auto bind_of = [&](const std::string& name) {
    pod.meta.name = pod.meta.uid = name;
    pod.node_name.clear();
    scheduler.OnPod(pod);
    const std::vector<PodAction> actions = scheduler.Advance(now += seconds(1), 0);
    EXPECT_EQ(actions.size(), 1u);
    return std::get<BindPod>(actions.at(0)).node;
  };
  const std::string planned = bind_of("first");
  pod.node_name = planned == "n0" ? "n1" : "n0";
  scheduler.OnPod(pod);
  EXPECT_TRUE(scheduler.Advance(now += seconds(1), 0).empty());
  EXPECT_EQ(bind_of("second"), planned) << "the place of the first one is free";
  EXPECT_TRUE(scheduler.CheckInvariants().ok());
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
