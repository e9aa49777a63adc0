// Pods whose volumes are made after their node has been chosen (WaitForFirstConsumer): the test
// plays the API server and the provisioner.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "engines/kubernetes/scheduling/pod_scheduler.h"

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Texts = std::vector<std::string>;

class LateVolumesTest : public testing::Test {
 protected:
  LateVolumesTest() {
    StorageClass late;
    late.meta.name = "late";
    late.provisioner = "csi.example.com";
    late.waits_for_consumer = true;
    scheduler_.volumes().SetClass(late);
    for (const char* const zone : {"a", "b"}) AddNode(std::string("node-") + zone, zone);
  }

  void AddNode(const std::string& name, const std::string& zone) {
    Node node;
    node.meta.name = name;
    node.meta.labels["zone"] = zone;
    node.capacity = {{"pods", Quantity::FromUnits(99)}, {"nvidia.com/gpu", Quantity::FromUnits(8)}};
    node.allocatable = node.capacity;
    node.conditions.push_back({"Ready", "True", ""});
    scheduler_.OnNode(node);
  }
  static Pod PodNamed(const std::string& name, std::vector<std::string> claims, int64_t gpus = 8) {
    Pod pod;
    pod.meta.namespace_name = "ns";
    pod.meta.name = pod.meta.uid = name;
    pod.scheduler_name = "longhaul";
    pod.requests = {{"nvidia.com/gpu", Quantity::FromUnits(gpus)}};
    pod.volume_claims = std::move(claims);
    return pod;
  }
  // A gang of two.
  static Pod Member(const std::string& name, std::vector<std::string> claims) {
    Pod pod = PodNamed(name, std::move(claims));
    pod.meta.labels[std::string(kPodGroupLabel)] = "gang";
    pod.meta.annotations[std::string(kMinMemberAnnotation)] = "2";
    return pod;
  }
  // The claim changes: a node is selected, or its volume is there.
  void SetClaim(const std::string& name, const std::string& node = "",
                const std::string& volume = "") {
    VolumeClaim claim;
    claim.meta.namespace_name = "ns";
    claim.meta.name = name;
    claim.meta.uid = "uid-" + name;
    claim.meta.resource_version = std::to_string(++version_);
    claim.storage_class = "late";
    if (!node.empty()) claim.meta.annotations[std::string(kSelectedNodeAnnotation)] = node;
    claim.volume = volume;
    claim.phase = volume.empty() ? "Pending" : "Bound";
    scheduler_.volumes().SetClaim(claim);
  }
  void SetVolume(const std::string& name, const std::string& zone) {
    Volume volume;
    volume.meta.name = name;
    volume.node_terms.emplace().push_back({{{"zone", "In", {zone}}}, {}});
    scheduler_.volumes().SetVolume(volume);
  }
  // "select CLAIM NODE" and "bind POD NODE".
  Texts Advance(Duration time = seconds(2)) {
    Texts texts;
    for (const PodAction& action : scheduler_.Advance(now_ += time, 0)) {
      if (const auto* select = std::get_if<SelectNode>(&action)) {
        texts.push_back("select " + select->claim + " " + select->node);
        last_select_ = *select;
      } else if (const auto* bind = std::get_if<BindPod>(&action)) {
        texts.push_back("bind " + bind->pod.name + " " + bind->node);
      }
    }
    EXPECT_TRUE(scheduler_.CheckInvariants().ok());
    return texts;
  }

  PodScheduler scheduler_{PodSchedulerSettings{}};
  Instant now_ = InstantFromNanoseconds(1'000'000'000'000);
  int64_t version_ = 0;
  SelectNode last_select_;
};

TEST_F(LateVolumesTest, ThePodIsBoundWhenItsVolumeHasBeenMadeForItsNode) {
  SetClaim("data");
  scheduler_.OnPod(PodNamed("p", {"data"}));
  EXPECT_THAT(Advance(), ElementsAre("select data node-a"));
  EXPECT_EQ(last_select_.uid, "uid-data");
  EXPECT_EQ(last_select_.version, "1");
  EXPECT_THAT(Advance(), IsEmpty()) << "asked once";
  EXPECT_EQ(scheduler_.WhyNotBound("ns/p"),
            "It has a node, and waits: claim 'data' has no volume yet, which is being made.");
  scheduler_.OnSelectNode(last_select_, Status(), now_);
  EXPECT_THAT(Advance(), IsEmpty());
  SetClaim("data", "node-a");
  EXPECT_THAT(Advance(), IsEmpty());
  SetClaim("data", "node-a", "pv");
  EXPECT_THAT(Advance(), IsEmpty()) << "the volume is not known yet";
  SetVolume("pv", "a");
  EXPECT_THAT(Advance(), ElementsAre("bind p node-a"));
}

TEST_F(LateVolumesTest, NoPodOfAGangIsBoundBeforeTheVolumesOfAllAreThere) {
  SetClaim("data-0");
  SetClaim("data-1");
  scheduler_.OnPod(Member("g-0", {"data-0"}));
  scheduler_.OnPod(Member("g-1", {"data-1"}));
  EXPECT_THAT(Advance(), ElementsAre("select data-0 node-a", "select data-1 node-b"));
  SetVolume("pv-0", "a");
  SetVolume("pv-1", "b");
  SetClaim("data-0", "node-a", "pv-0");
  EXPECT_THAT(Advance(), IsEmpty());
  SetClaim("data-1", "node-b", "pv-1");
  EXPECT_THAT(Advance(), ElementsAre("bind g-0 node-a", "bind g-1 node-b"));
}

TEST_F(LateVolumesTest, AClaimThatAGangSharesIsAskedForOnce) {
  SetClaim("shared");
  scheduler_.OnPod(Member("g-0", {"shared"}));
  scheduler_.OnPod(Member("g-1", {"shared"}));
  EXPECT_THAT(Advance(), ElementsAre("select shared node-a"));
  SetClaim("shared", "node-a");
  EXPECT_THAT(Advance(), IsEmpty()) << "the other pod keeps its own node";
  Volume anywhere;
  anywhere.meta.name = "pv";
  scheduler_.volumes().SetVolume(anywhere);
  SetClaim("shared", "node-a", "pv");
  EXPECT_THAT(Advance(), ElementsAre("bind g-0 node-a", "bind g-1 node-b"));
}

TEST_F(LateVolumesTest, AVolumeThatCannotBeUsedOnThePlannedNodeMovesThePod) {
  SetClaim("data");
  scheduler_.OnPod(PodNamed("p", {"data"}));
  EXPECT_THAT(Advance(), ElementsAre("select data node-a"));
  SetVolume("pv", "b");
  SetClaim("data", "node-b", "pv");
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_THAT(scheduler_.WhyNotBound("ns/p"), HasSubstr("cannot be used on node 'node-a'"));
  EXPECT_THAT(Advance(), ElementsAre("bind p node-b"));
}

TEST_F(LateVolumesTest, APodIsPlacedAnewWhenItsProvisionerGivesUp) {
  SetClaim("data");
  scheduler_.OnPod(PodNamed("p", {"data"}));
  EXPECT_THAT(Advance(), ElementsAre("select data node-a"));
  SetClaim("data", "node-a");
  EXPECT_THAT(Advance(), IsEmpty());
  // There is no room for the volume. Meanwhile the node has gone to another pod.
  SetClaim("data");
  scheduler_.OnPod(PodNamed("other", {}));
  EXPECT_THAT(Advance(Duration(0)), ElementsAre("bind other node-a"));
  EXPECT_EQ(scheduler_.WhyNotBound("ns/p"),
            "It could not be bound, and this is tried again: no volume could be made for claim "
            "'data'.");
  EXPECT_THAT(Advance(), ElementsAre("select data node-b"));
}

// The watch may report the last of several changes only.
TEST_F(LateVolumesTest, AProvisionerThatGivesUpBeforeTheNodeIsSeenIsNoticed) {
  SetClaim("data");
  scheduler_.OnPod(PodNamed("p", {"data"}));
  EXPECT_THAT(Advance(), ElementsAre("select data node-a"));
  scheduler_.OnSelectNode(last_select_, Status(), now_);
  SetClaim("data");
  EXPECT_THAT(Advance(Duration(0)), IsEmpty());
  EXPECT_THAT(Advance(), ElementsAre("select data node-a"));
}

TEST_F(LateVolumesTest, ARefusedSelectionIsTriedAgain) {
  SetClaim("data");
  scheduler_.OnPod(PodNamed("p", {"data"}));
  EXPECT_THAT(Advance(), ElementsAre("select data node-a"));
  scheduler_.OnSelectNode(last_select_, PermissionDenied("no right to patch"), now_);
  EXPECT_THAT(Advance(Duration(0)), IsEmpty());
  EXPECT_THAT(scheduler_.WhyNotBound("ns/p"), HasSubstr("no right to patch"));
  EXPECT_THAT(Advance(), ElementsAre("select data node-a"));
}

TEST_F(LateVolumesTest, APodGoesToTheNodeThatWasSelectedBefore) {
  SetClaim("data", "node-b");
  scheduler_.OnPod(PodNamed("p", {"data"}));
  EXPECT_THAT(Advance(), IsEmpty());
  SetVolume("pv", "b");
  SetClaim("data", "node-b", "pv");
  EXPECT_THAT(Advance(), ElementsAre("bind p node-b"));
}

TEST_F(LateVolumesTest, TheClassSaysWhereVolumesAreMade) {
  StorageClass late;
  late.meta.name = "late";
  late.waits_for_consumer = true;
  late.topologies.push_back({{{"zone", "In", {"b"}}}, {}});
  scheduler_.volumes().SetClass(late);
  SetClaim("data");
  scheduler_.OnPod(PodNamed("p", {"data"}));
  EXPECT_THAT(Advance(), ElementsAre("select data node-b"));
}

TEST_F(LateVolumesTest, AVolumeThatIsNotMadeInTimeCostsThePlace) {
  SetClaim("data");
  scheduler_.OnPod(PodNamed("p", {"data"}));
  EXPECT_THAT(Advance(), ElementsAre("select data node-a"));
  SetClaim("data", "node-a");
  EXPECT_THAT(Advance(), IsEmpty());
  const std::optional<Instant> next = scheduler_.NextDeadline();
  ASSERT_TRUE(next.has_value());
  EXPECT_LE(*next, now_ + minutes(10));
  scheduler_.OnPod(PodNamed("other", {}, 4));
  EXPECT_THAT(Advance(), ElementsAre("bind other node-b")) << "the place is held";
  EXPECT_THAT(Advance(minutes(10)), IsEmpty());
  EXPECT_THAT(scheduler_.WhyNotBound("ns/p"), HasSubstr("was not ready in time"));
}

TEST_F(LateVolumesTest, APodWhoseClaimVanishesWhileItsVolumeIsMadeLosesItsPlace) {
  SetClaim("data");
  scheduler_.OnPod(PodNamed("p", {"data"}));
  EXPECT_THAT(Advance(), ElementsAre("select data node-a"));
  scheduler_.volumes().RemoveClaim("ns/data");
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_EQ(scheduler_.WhyNotBound("ns/p"), "It waits: claim 'data' does not exist.");
  SetClaim("data");
  EXPECT_THAT(Advance(), ElementsAre("select data node-a"));
}

// The replacement of a lost pod waits for a node that its claim names. Then the
// volume can be used everywhere.
TEST_F(LateVolumesTest, TheReplacementOfALostPodFollowsItsClaim) {
  scheduler_.OnPod(Member("g-0", {}));
  scheduler_.OnPod(Member("g-1", {}));
  for (const Texts binds = Advance(); const std::string& text : binds) {
    const std::string pod = text.substr(5, 3);
    scheduler_.OnBind({"ns", pod, pod}, BindResult::kBound, "", now_);
  }
  Advance();
  scheduler_.OnPodGone({"ns", "g-1", "g-1"});
  scheduler_.OnPod(PodNamed("other", {}));
  EXPECT_THAT(Advance(), ElementsAre("bind other node-b"));
  AddNode("node-c", "c");
  SetClaim("data", "node-b");
  Pod next = Member("g-1", {"data"});
  next.meta.uid = "next";
  scheduler_.OnPod(next);
  EXPECT_THAT(Advance(), IsEmpty());
  Volume anywhere;
  anywhere.meta.name = "pv";
  scheduler_.volumes().SetVolume(anywhere);
  SetClaim("data", "node-b", "pv");
  EXPECT_THAT(Advance(), ElementsAre("bind g-1 node-c"));
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
