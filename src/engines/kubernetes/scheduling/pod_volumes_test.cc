#include "engines/kubernetes/scheduling/pod_volumes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::engines::kubernetes {
namespace {

using Keys = std::set<std::string>;
using Use = PodVolumes::Use;

class PodVolumesTest : public testing::Test {
 protected:
  static VolumeClaim Claim(const std::string& name, const std::string& volume) {
    VolumeClaim claim;
    claim.meta.namespace_name = "ns";
    claim.meta.name = name;
    claim.volume = volume;
    claim.phase = volume.empty() ? "Pending" : "Bound";
    return claim;
  }
  static Volume InZone(const std::string& name, const std::string& zone) {
    Volume volume;
    volume.meta.name = name;
    volume.node_terms.emplace().push_back({{{"zone", "In", {zone}}}, {}});
    return volume;
  }
  Pod Add(const std::string& name, std::vector<std::string> claims, Use use = Use::kWaits) {
    Pod pod;
    pod.meta.namespace_name = "ns";
    pod.meta.name = name;
    pod.meta.uid = "uid-" + name;
    pod.meta.created_at = InstantFromNanoseconds(++last_);
    pod.volume_claims = std::move(claims);
    volumes_.SetPod(pod, use);
    return pod;
  }
  std::string Wait(const std::string& pod) { return volumes_.AnswerFor("ns/" + pod).wait; }

  int64_t last_ = 0;
  PodVolumes volumes_;
};

TEST_F(PodVolumesTest, APodWaitsUntilItsClaimAndItsVolumeAreThere) {
  Add("p", {"data"});
  EXPECT_EQ(Wait("p"), "claim 'data' does not exist");
  volumes_.SetClaim(Claim("data", ""));
  EXPECT_EQ(Wait("p"), "claim 'data' is not bound yet");
  volumes_.SetClaim(Claim("data", "pv"));
  EXPECT_EQ(Wait("p"), "volume 'pv' of claim 'data' does not exist");
  volumes_.TakeChanged();
  volumes_.SetVolume(InZone("pv", "a"));
  EXPECT_EQ(volumes_.TakeChanged(), Keys{"ns/p"});
  EXPECT_EQ(Wait("p"), "");
  ASSERT_EQ(volumes_.AnswerFor("ns/p").rules.terms.size(), 1u);
  volumes_.RemoveVolume("pv");
  EXPECT_EQ(volumes_.TakeChanged(), Keys{"ns/p"});
  EXPECT_EQ(Wait("p"), "volume 'pv' of claim 'data' does not exist");
  volumes_.RemoveClaim("ns/data");
  EXPECT_EQ(Wait("p"), "claim 'data' does not exist");
}

TEST_F(PodVolumesTest, EachVolumeRestrictsTheNodesFurther) {
  volumes_.SetClaim(Claim("one", "pv-1"));
  volumes_.SetClaim(Claim("two", "pv-2"));
  volumes_.SetClaim(Claim("anywhere", "pv-3"));
  volumes_.SetVolume(InZone("pv-1", "a"));
  volumes_.SetVolume(InZone("pv-2", "b"));
  Volume anywhere;
  anywhere.meta.name = "pv-3";
  volumes_.SetVolume(anywhere);
  Add("p", {"one", "two", "anywhere"});
  const NodeRules rules = volumes_.AnswerFor("ns/p").rules;
  Node node;
  for (const char* const zone : {"a", "b"}) {
    node.meta.labels["zone"] = zone;
    EXPECT_FALSE(Permits(rules, node)) << "both have to hold";
  }
  Add("q", {"two", "anywhere"});
  EXPECT_TRUE(Permits(volumes_.AnswerFor("ns/q").rules, node));
}

TEST_F(PodVolumesTest, AClaimThatNeedsAnotherThingIsNamedWithIt) {
  StorageClass late;
  late.meta.name = "late";
  late.waits_for_consumer = true;
  late.provisioner = "kubernetes.io/no-provisioner";
  volumes_.SetClass(late);
  Add("p", {"data"});
  VolumeClaim claim = Claim("data", "");
  claim.storage_class = "late";
  volumes_.SetClaim(claim);
  EXPECT_THAT(Wait("p"), testing::HasSubstr("StorageClass 'late' makes no volumes"));
  volumes_.TakeChanged();
  volumes_.RemoveClass("late");
  EXPECT_EQ(volumes_.TakeChanged(), Keys{"ns/p"});
  EXPECT_EQ(Wait("p"), "claim 'data' is not bound yet") << "as the stock scheduler has it";
  claim = Claim("data", "pv");
  claim.meta.being_deleted = true;
  volumes_.SetClaim(claim);
  EXPECT_EQ(Wait("p"), "claim 'data' is being deleted");
  claim = Claim("data", "pv");
  claim.phase = "Lost";
  volumes_.SetClaim(claim);
  EXPECT_EQ(Wait("p"), "claim 'data' has lost its volume");
  volumes_.SetClaim(Claim("data", "pv"));
  Volume odd = InZone("pv", "a");
  odd.node_terms->at(0).match_labels[0].comparison = "Like";
  volumes_.SetVolume(odd);
  EXPECT_THAT(Wait("p"), testing::HasSubstr("volume 'pv' of claim 'data': node affinity: the "
                                            "operator 'Like' is not supported"));
}

TEST_F(PodVolumesTest, AClaimOfOnePodBelongsToTheBoundOneElseToTheFirst) {
  VolumeClaim claim = Claim("data", "pv");
  claim.one_pod = true;
  volumes_.SetClaim(claim);
  volumes_.SetVolume(InZone("pv", "a"));
  const Pod first = Add("first", {"data"});
  const Pod second = Add("second", {"data"});
  EXPECT_EQ(Wait("first"), "");
  EXPECT_EQ(Wait("second"), "claim 'data' (ReadWriteOncePod) is in use by pod ns/first");
  volumes_.SetPod(second, Use::kBound);
  EXPECT_EQ(Wait("first"), "claim 'data' (ReadWriteOncePod) is in use by pod ns/second");
  volumes_.TakeChanged();
  volumes_.SetPod(second, Use::kNone);
  EXPECT_TRUE(volumes_.TakeChanged().contains("ns/first"));
  EXPECT_EQ(Wait("first"), "");
  volumes_.RemovePod("ns/first");
  volumes_.SetPod(second, Use::kWaits);
  EXPECT_EQ(Wait("second"), "");
}

TEST_F(PodVolumesTest, WhatIsNotReadIsNotTakenForAbsent) {
  Add("p", {"data"});
  volumes_.TakeChanged();
  volumes_.SetReadable(false);
  EXPECT_EQ(volumes_.TakeChanged(), Keys{"ns/p"});
  EXPECT_THAT(Wait("p"), testing::HasSubstr("lacks the right"));
  volumes_.SetReadable(true);
  EXPECT_EQ(Wait("p"), "claim 'data' does not exist");
}

TEST_F(PodVolumesTest, ASharedClaimChangesNoOtherPod) {
  volumes_.SetClaim(Claim("data", "pv"));
  volumes_.SetVolume(InZone("pv", "a"));
  const Pod one = Add("one", {"data"});
  Add("two", {"data"});
  volumes_.TakeChanged();
  volumes_.SetPod(one, Use::kBound);
  volumes_.RemovePod("ns/one");
  EXPECT_FALSE(volumes_.has_changed()) << "thousands of pods may share it";
}

TEST_F(PodVolumesTest, AClaimThatWasMadeForAnotherPodIsNotUsed) {
  Pod pod;
  pod.meta.namespace_name = "ns";
  pod.meta.name = "p";
  pod.meta.uid = "u";
  pod.ephemeral_claims = {"p-scratch"};
  volumes_.SetPod(pod, Use::kWaits);
  VolumeClaim claim = Claim("p-scratch", "pv");
  volumes_.SetVolume(InZone("pv", "a"));
  volumes_.SetClaim(claim);
  EXPECT_EQ(Wait("p"), "claim 'p-scratch' was not made for this pod");
  claim.meta.controller = Owner{"v1", "Pod", "p", "u"};
  volumes_.SetClaim(claim);
  EXPECT_EQ(Wait("p"), "");
}

TEST_F(PodVolumesTest, AnotherPodOfTheNameHasItsOwnClaims) {
  volumes_.SetClaim(Claim("old", "pv"));
  Pod pod = Add("p", {"old", "old"});
  pod.meta.uid = "other";
  pod.volume_claims = {"new"};
  volumes_.SetPod(pod, Use::kWaits);
  EXPECT_EQ(Wait("p"), "claim 'new' does not exist");
  volumes_.TakeChanged();
  volumes_.SetClaim(Claim("old", ""));
  EXPECT_FALSE(volumes_.has_changed());
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
