#include "engines/kubernetes/scheduling/pod_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <variant>

#include "engines/kubernetes/scheduling/simulated_cluster.h"

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

class PodSchedulerTest : public testing::Test {
 protected:
  PodSchedulerTest() : cluster_(1, {}) {}

  void Pass(Duration time) {
    const Status holds = cluster_.Run(time);
    ASSERT_TRUE(holds.ok()) << holds << "\n" << cluster_.log();
  }
  // A pod of ours that runs until the end of the test; `spec` is merged into its specification.
  void AddPod(const std::string& name, int devices, const Json& spec = Json::object(),
              const Json& labels = Json::object(), const Json& annotations = Json::object()) {
    Json pod = {
        {"metadata", {{"name", name}, {"labels", labels}, {"annotations", annotations}}},
        {"spec",
         {{"schedulerName", "longhaul"},
          {"containers",
           Json::array(
               {{{"name", "main"},
                 {"image", "x"},
                 {"resources", {{"limits", {{"nvidia.com/gpu", std::to_string(devices)}}}}}}})}}}};
    if (!spec.empty()) pod["spec"].merge_patch(spec);
    const ApiResponse made = cluster_.Do("POST", "/api/v1/namespaces/ns/pods", pod);
    ASSERT_EQ(made.status, 201) << made.body;
  }
  void AddGroup(const std::string& name, int least) {
    const ApiResponse made =
        cluster_.Do("POST", "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/ns/podgroups",
                    {{"metadata", {{"name", name}}}, {"spec", {{"minMember", least}}}});
    ASSERT_EQ(made.status, 201) << made.body;
  }
  void PatchNode(const std::string& name, const Json& patch) {
    ASSERT_EQ(
        cluster_.Do("PATCH", "/api/v1/nodes/" + name, patch, "application/merge-patch+json").status,
        200);
  }
  void Delete(const std::string& pod) {
    ASSERT_EQ(
        cluster_.Do("DELETE", "/api/v1/namespaces/ns/pods/" + pod, {{"gracePeriodSeconds", 0}})
            .status,
        200);
  }
  static Json WithClaim(const std::string& claim) {
    return {{"volumes",
             Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", claim}}}}})}};
  }
  // Without a zone it can be used everywhere.
  void AddVolume(const std::string& name, const std::string& zone) {
    Json volume = {{"metadata", {{"name", name}}}, {"spec", Json::object()}};
    if (!zone.empty()) {
      const Json term = {
          {"matchExpressions",
           Json::array({{{"key", "zone"}, {"operator", "In"}, {"values", Json::array({zone})}}})}};
      volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] = Json::array({term});
    }
    ASSERT_EQ(cluster_.Do("POST", "/api/v1/persistentvolumes", volume).status, 201);
  }
  void AddClaim(const std::string& name, const std::string& volume, const std::string& phase,
                const std::string& mode = "ReadWriteMany") {
    const Json claim = {{"metadata", {{"name", name}}},
                        {"spec", {{"accessModes", Json::array({mode})}, {"volumeName", volume}}},
                        {"status", {{"phase", phase}}}};
    ASSERT_EQ(cluster_.Do("POST", kClaims, claim).status, 201);
  }
  void BindClaim(const std::string& name, const std::string& volume) {
    const std::string path = std::string(kClaims) + "/" + name;
    const std::string type = "application/merge-patch+json";
    ASSERT_EQ(cluster_.Do("PATCH", path, {{"spec", {{"volumeName", volume}}}}, type).status, 200);
    ASSERT_EQ(
        cluster_.Do("PATCH", path + "/status", {{"status", {{"phase", "Bound"}}}}, type).status,
        200);
  }
  static Json InGroup(const std::string& name) { return {{"scheduling.x-k8s.io/pod-group", name}}; }
  std::string NodeOf(const std::string& pod) const { return cluster_.NodeOf(pod); }
  std::string Message(const std::string& pod) const { return cluster_.MessageOf(pod); }

  static constexpr const char* kClaims = "/api/v1/namespaces/ns/persistentvolumeclaims";
  SimulatedCluster cluster_;
};

TEST_F(PodSchedulerTest, AGangStartsWholeOnOneLeaf) {
  for (const char* node : {"n0", "n1", "n2", "n3"}) {
    cluster_.AddNode(node, node < std::string("n2") ? "a" : "b", 8);
  }
  cluster_.AddForeignPod("foreign", "n0", 1);
  cluster_.AddGang({.name = "g", .size = 4, .devices = 4, .runs = std::chrono::hours(10)});
  Pass(seconds(10));
  std::multiset<std::string> nodes;
  for (int i = 0; i < 4; ++i) nodes.insert(NodeOf("g-" + std::to_string(i)));
  EXPECT_EQ(nodes, (std::multiset<std::string>{"n2", "n2", "n3", "n3"}));
  EXPECT_LE(NodeOf("g-0"), NodeOf("g-3")) << "ranks follow the nodes";
  const Json* pod = cluster_.api().Find("pods", {"ns", "g-3"});
  EXPECT_EQ((*pod)["metadata"]["annotations"]["longhaul.dev/rank"], "3");
}

TEST_F(PodSchedulerTest, AGangWaitsForAllItsPodsAndSaysSo) {
  cluster_.AddNode("n0", "a", 8);
  AddPod("early", 1, {}, InGroup("g"));
  Pass(seconds(10));
  EXPECT_THAT(Message("early"), HasSubstr("PodGroup ns/g does not exist"));
  AddGroup("g", 2);
  Pass(minutes(2));
  EXPECT_EQ(NodeOf("early"), "");
  EXPECT_THAT(Message("early"), HasSubstr("1 of the 2 pods"));
  AddPod("late", 1, {}, InGroup("g"));
  Pass(seconds(10));
  EXPECT_EQ(NodeOf("early"), "n0");
  EXPECT_EQ(NodeOf("late"), "n0");
}

TEST_F(PodSchedulerTest, AnAnnotationReplacesThePodGroup) {
  cluster_.AddNode("n0", "a", 8);
  const Json least = {{"longhaul.dev/min-member", "2"}};
  AddPod("one", 1, {}, InGroup("g"), least);
  Pass(seconds(10));
  EXPECT_EQ(NodeOf("one"), "");
  AddPod("two", 1, {}, InGroup("g"), least);
  Pass(seconds(10));
  EXPECT_EQ(NodeOf("one") + NodeOf("two"), "n0n0");
}

TEST_F(PodSchedulerTest, AGroupMayStartWithOnePod) {
  cluster_.AddNode("n0", "a", 8);
  AddPod("one", 1, {}, InGroup("g"), {{"longhaul.dev/min-member", "1"}});
  AddPod("other", 1, {}, InGroup("h"));
  Pass(seconds(10));
  EXPECT_EQ(NodeOf("one"), "n0");
  EXPECT_EQ(NodeOf("other"), "") << "nothing says how many";
  EXPECT_THAT(Message("other"), HasSubstr("min-member"));
}

TEST_F(PodSchedulerTest, WhatIsNotUnderstoodIsRefusedByName) {
  cluster_.AddNode("n0", "a", 8);
  const struct {
    const char* name;
    Json spec;
    const char* text;
  } kRows[] = {
      {"anti", {{"affinity", {{"podAntiAffinity", {{"x", 1}}}}}}, "podAntiAffinity"},
      {"spread",
       {{"topologySpreadConstraints", Json::array({{{"maxSkew", 1}}})}},
       "topologySpread"},
      {"claims", {{"resourceClaims", Json::array({{{"name", "gpu"}}})}}, "spec.resourceClaims"},
      {"volume",
       {{"volumes",
         Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}})}},
       "claim 'data' does not exist"},
      {"operator",
       {{"affinity",
         {{"nodeAffinity",
           {{"requiredDuringSchedulingIgnoredDuringExecution",
             {{"nodeSelectorTerms",
               Json::array({{{"matchExpressions",
                              Json::array({{{"key", "a"}, {"operator", "Like"}}})}}})}}}}}}}},
       "'Like'"},
      {"selector", {{"nodeSelector", {{"disk", "fast"}}}}, "no node has the labels"},
      {"large", {}, "at most 16"},
  };
  for (const auto& row : kRows)
    AddPod(row.name, row.name == std::string("large") ? 17 : 1, row.spec);
  AddPod("plain", 1);
  Pass(seconds(10));
  for (const auto& row : kRows) {
    EXPECT_EQ(NodeOf(row.name), "") << row.name;
    EXPECT_THAT(Message(row.name), HasSubstr(row.text)) << row.name;
  }
  EXPECT_EQ(NodeOf("plain"), "n0");
}

TEST_F(PodSchedulerTest, AHigherPriorityEvictsWhatItNeedsAndNotWithoutTheRight) {
  cluster_.AddNode("n0", "a", 8);
  cluster_.AddGang({.name = "low", .size = 2, .devices = 4, .runs = std::chrono::hours(10)});
  Pass(seconds(10));
  AddPod("peaceful", 8, {{"priority", 100}, {"preemptionPolicy", "Never"}});
  Pass(seconds(10));
  EXPECT_EQ(cluster_.Bound("low"), 2);
  EXPECT_EQ(cluster_.Removed(), 0);
  AddPod("high", 8, {{"priority", 100}});
  Pass(seconds(20));
  EXPECT_EQ(NodeOf("high"), "n0");
  EXPECT_EQ(cluster_.Bound("low"), 0);
  EXPECT_EQ(cluster_.Removed(), 2);
  EXPECT_THAT(cluster_.log(), HasSubstr("create pods/eviction low-0"));
  EXPECT_THAT(cluster_.log(), Not(HasSubstr("delete pods low-")));
  EXPECT_EQ(cluster_.Rejected(), 0) << "it was bound before the others had left";
  const std::vector<Json> events = cluster_.EventsOf("Preempted");
  ASSERT_EQ(events.size(), 1u) << "one for the gang";
  EXPECT_THAT(events[0]["regarding"]["name"], testing::AnyOf("low-0", "low-1"));
  EXPECT_EQ(events[0]["note"], "Preempted by pod ns/high, with the other pods of PodGroup ns/low");
}

TEST_F(PodSchedulerTest, APodAndAGangHaveOneEventOfTheirStart) {
  for (const char* node : {"n0", "n1", "n2"}) cluster_.AddNode(node, "a", 8);
  cluster_.AddGang({.name = "g", .size = 4, .devices = 4, .runs = std::chrono::hours(10)});
  AddPod("single", 8);
  Pass(seconds(10));
  const std::vector<Json> events = cluster_.EventsOf("Scheduled");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0]["regarding"]["name"], "g-0");
  EXPECT_EQ(events[0]["note"], "Successfully assigned ns/g-0 to " + NodeOf("g-0") +
                                   ", with 3 more pods of PodGroup ns/g on 2 nodes");
  EXPECT_EQ(events[1]["regarding"]["uid"],
            cluster_.api().Find("pods", {"ns", "single"})->at("metadata")["uid"]);
  EXPECT_EQ(events[1]["note"], "Successfully assigned ns/single to " + NodeOf("single"));
  EXPECT_EQ(events[1]["type"], "Normal");
  // A new scheduler finds them bound, and writes nothing.
  for (const Json& event : events) {
    cluster_.api().Remove("events", {"ns", event["metadata"]["name"].get<std::string>()});
  }
  cluster_.ReplaceScheduler();
  Pass(minutes(10));
  EXPECT_EQ(cluster_.EventsOf("Scheduled").size(), 0u);
}

TEST_F(PodSchedulerTest, AWaitingGangHasOneEventThatIsContinued) {
  for (const char* node : {"n0", "n1"}) cluster_.AddNode(node, "a", 8);
  AddPod("one", 6);
  AddPod("two", 6);
  Pass(seconds(10));
  cluster_.AddGang({.name = "g", .size = 2, .devices = 8, .runs = std::chrono::hours(10)});
  // After 1 s, and 1, 2, 4 and 8 minutes later.
  Pass(minutes(10));
  EXPECT_THAT(Message("g-0"), HasSubstr("4 GPUs are free"));
  // The reason is the same, with another number in it.
  Delete("two");
  Pass(minutes(10));
  EXPECT_THAT(Message("g-0"), HasSubstr("10 GPUs are free"));
  const std::vector<Json> events = cluster_.EventsOf("FailedScheduling");
  ASSERT_EQ(events.size(), 1u) << events[1]["note"];
  EXPECT_EQ(events[0]["regarding"]["name"], "g-0");
  EXPECT_EQ(events[0]["type"], "Warning");
  EXPECT_EQ(events[0]["series"]["count"], 5);
}

TEST_F(PodSchedulerTest, AnEventThatHasExpiredIsMadeAnew) {
  cluster_.AddNode("n0", "a", 8);
  AddPod("large", 9);
  Pass(seconds(10));
  ASSERT_EQ(cluster_.EventsOf("FailedScheduling").size(), 1u);
  const std::string name = cluster_.EventsOf("FailedScheduling")[0]["metadata"]["name"];
  cluster_.api().Remove("events", {"ns", name});
  Pass(minutes(5));
  ASSERT_EQ(cluster_.EventsOf("FailedScheduling").size(), 1u);
  EXPECT_NE(cluster_.EventsOf("FailedScheduling")[0]["metadata"]["name"], name);
}

TEST_F(PodSchedulerTest, PodsOfOthersKeepTheirDevicesAndTheirPlace) {
  cluster_.AddNode("n0", "a", 8);
  cluster_.AddForeignPod("foreign", "n0", 5);
  AddPod("large", 4, {{"priority", 1'000'000}});
  AddPod("small", 3);
  Pass(seconds(10));
  EXPECT_EQ(NodeOf("small"), "n0");
  EXPECT_EQ(NodeOf("large"), "");
  EXPECT_EQ(cluster_.Removed(), 0) << "evicting the small one would not make room";
}

TEST_F(PodSchedulerTest, PodsWithOneHostPortLieOnDifferentNodes) {
  const auto with_port = [](int port, const char* protocol, const char* address) {
    const Json ports = Json::array({{{"containerPort", port},
                                     {"hostPort", port},
                                     {"protocol", protocol},
                                     {"hostIP", address}}});
    return Json{
        {"containers", Json::array({{{"name", "main"}, {"image", "x"}, {"ports", ports}}})}};
  };
  for (const char* const node : {"n0", "n1", "n2"}) cluster_.AddNode(node, "a", 8);
  Json foreign = with_port(29'500, "TCP", "10.0.0.1");
  foreign["schedulerName"] = "default-scheduler";
  foreign["nodeName"] = "n0";
  AddPod("foreign", 0, foreign);
  AddPod("one", 0, with_port(29'500, "TCP", ""));
  AddPod("two", 0, with_port(29'500, "TCP", "10.0.0.2"));
  Pass(seconds(10));
  EXPECT_EQ((std::set<std::string>{NodeOf("one"), NodeOf("two")}),
            (std::set<std::string>{"n1", "n2"}));
  AddPod("three", 0, with_port(29'500, "TCP", ""));
  AddPod("datagrams", 0, with_port(29'500, "UDP", ""));
  Pass(seconds(10));
  EXPECT_EQ(NodeOf("three"), "");
  EXPECT_THAT(Message("three"), HasSubstr("host port 29500/TCP"));
  EXPECT_NE(NodeOf("datagrams"), "");
  Delete("foreign");
  Pass(seconds(10));
  EXPECT_EQ(NodeOf("three"), "n0");
}

TEST_F(PodSchedulerTest, AVolumeRestrictsTheNodesOfItsPod) {
  for (const char* node : {"n0", "n1"}) cluster_.AddNode(node, "a", 8);
  PatchNode("n1", {{"metadata", {{"labels", {{"zone", "b"}}}}}});
  AddPod("plain", 1);
  AddPod("reads", 1, WithClaim("data"));
  Pass(seconds(10));
  EXPECT_EQ(Message("reads"), "It waits: claim 'data' does not exist.");
  AddClaim("data", "", "Pending");
  Pass(minutes(2));
  EXPECT_EQ(Message("reads"), "It waits: claim 'data' is not bound yet.");
  AddVolume("pv", "b");
  BindClaim("data", "pv");
  Pass(seconds(10));
  EXPECT_EQ(NodeOf("reads"), "n1");
  // No node has the place of this one.
  AddVolume("pv-c", "c");
  AddClaim("far", "pv-c", "Bound");
  AddPod("far", 1, WithClaim("far"));
  Pass(minutes(2));
  EXPECT_EQ(NodeOf("far"), "");
  EXPECT_THAT(Message("far"), HasSubstr("no node has the labels"));
  PatchNode("n0", {{"metadata", {{"labels", {{"zone", "c"}}}}}});
  Pass(minutes(2));
  EXPECT_EQ(NodeOf("far"), "n0");
  // They are known where they are after a restart, whatever has become of their claims.
  cluster_.Do("DELETE", "/api/v1/namespaces/ns/persistentvolumeclaims/far", Json::object());
  cluster_.ReplaceScheduler();
  AddPod("high", 8, {{"priority", 100}, {"nodeSelector", {{"zone", "c"}}}});
  Pass(minutes(1));
  EXPECT_THAT(cluster_.log(), HasSubstr("create pods/eviction far"));
}

TEST_F(PodSchedulerTest, AGangWaitsForTheVolumeOfOneOfItsPods) {
  for (const char* node : {"n0", "n1"}) cluster_.AddNode(node, "a", 8);
  AddGroup("g", 2);
  AddPod("g-0", 1, {}, InGroup("g"));
  AddPod("g-1", 1, WithClaim("data"), InGroup("g"));
  Pass(seconds(10));
  EXPECT_EQ(NodeOf("g-0") + NodeOf("g-1"), "");
  EXPECT_EQ(Message("g-0"), "It waits for pod g-1 of its group: claim 'data' does not exist.");
  EXPECT_EQ(Message("g-1"), "It waits: claim 'data' does not exist.");
  AddVolume("pv", "");
  AddClaim("data", "pv", "Bound");
  Pass(seconds(10));
  EXPECT_NE(NodeOf("g-0"), "");
  EXPECT_NE(NodeOf("g-1"), "");
}

TEST_F(PodSchedulerTest, AClaimOfOnePodIsUsedByOneAtATime) {
  cluster_.AddNode("n0", "a", 8);
  AddVolume("pv", "");
  AddClaim("data", "pv", "Bound", "ReadWriteOncePod");
  AddPod("one", 1, WithClaim("data"));
  AddPod("two", 1, WithClaim("data"));
  Pass(seconds(10));
  const std::string waits = NodeOf("two").empty() ? "two" : "one";
  const std::string runs = waits == "two" ? "one" : "two";
  EXPECT_EQ(NodeOf(runs), "n0");
  EXPECT_EQ(NodeOf(waits), "");
  EXPECT_EQ(Message(waits),
            "It waits: claim 'data' (ReadWriteOncePod) is in use by pod ns/" + runs + ".");
  Delete(runs);
  Pass(seconds(10));
  EXPECT_EQ(NodeOf(waits), "n0");
}

TEST_F(PodSchedulerTest, AWaitingPodFollowsItsVolume) {
  for (const char* node : {"n0", "n1"}) cluster_.AddNode(node, "a", 8);
  PatchNode("n0", {{"metadata", {{"labels", {{"zone", "a"}}}}}});
  PatchNode("n1", {{"metadata", {{"labels", {{"zone", "b"}}}}}});
  AddVolume("pv-a", "a");
  AddVolume("pv-b", "b");
  AddClaim("a", "pv-a", "Bound");
  AddClaim("b", "pv-b", "Bound");
  AddPod("in-a", 8, WithClaim("a"));
  AddPod("in-b", 4, WithClaim("b"));
  Pass(seconds(10));
  ASSERT_EQ(NodeOf("in-a"), "n0");
  // It waits for n0; then its claim is made anew, with rules that are known already.
  AddPod("follows", 4, WithClaim("a"));
  Pass(minutes(2));
  ASSERT_EQ(NodeOf("follows"), "");
  BindClaim("a", "pv-b");
  Pass(seconds(10));
  EXPECT_EQ(NodeOf("follows"), "n1");
}

TEST_F(PodSchedulerTest, SelectorsTaintsAndCordonsAreKept) {
  for (const char* node : {"n0", "n1", "n2"}) cluster_.AddNode(node, "a", 8);
  PatchNode(
      "n0",
      {{"spec",
        {{"taints", Json::array({{{"key", "team"}, {"value", "x"}, {"effect", "NoSchedule"}}})}}}});
  PatchNode("n1", {{"metadata", {{"labels", {{"disk", "fast"}}}}}});
  PatchNode("n2", {{"spec", {{"unschedulable", true}}}});
  AddPod("fast", 1, {{"nodeSelector", {{"disk", "fast"}}}});
  AddPod("tolerant", 8,
         {{"tolerations", Json::array({{{"key", "team"}, {"operator", "Exists"}}})}});
  AddPod("whole", 8);
  Pass(seconds(10));
  EXPECT_EQ(NodeOf("fast"), "n1");
  EXPECT_EQ(NodeOf("tolerant"), "n0");
  EXPECT_EQ(NodeOf("whole"), "");
  PatchNode("n2", {{"spec", {{"unschedulable", nullptr}}}});
  Pass(seconds(10));
  EXPECT_EQ(NodeOf("whole"), "n2");
}

TEST_F(PodSchedulerTest, ANewSchedulerAdoptsWhatIsBound) {
  for (const char* node : {"n0", "n1"}) cluster_.AddNode(node, "a", 8);
  cluster_.AddGang({.name = "g", .size = 3, .devices = 4, .runs = std::chrono::hours(10)});
  Pass(seconds(10));
  const std::string before = NodeOf("g-0") + NodeOf("g-1") + NodeOf("g-2");
  cluster_.ReplaceScheduler();
  AddPod("whole", 8);
  AddPod("half", 4);
  Pass(minutes(10));
  EXPECT_EQ(NodeOf("g-0") + NodeOf("g-1") + NodeOf("g-2"), before);
  EXPECT_NE(NodeOf("half"), "");
  EXPECT_EQ(NodeOf("whole"), "");
  EXPECT_EQ(cluster_.Removed(), 0);
  EXPECT_EQ(cluster_.scheduler().counts().bound, 4u);
}

TEST_F(PodSchedulerTest, APodThatReplacesOneOfARunningGangIsPlacedNearTheOthers) {
  for (const char* node : {"n0", "n1", "n2", "n3"}) {
    cluster_.AddNode(node, node < std::string("n2") ? "a" : "b", 8);
  }
  cluster_.AddGang({.name = "g", .size = 2, .devices = 8, .runs = std::chrono::hours(10)});
  Pass(seconds(10));
  const std::string other = NodeOf("g-1");
  cluster_.Do("DELETE", "/api/v1/namespaces/ns/pods/g-0", Json::object());
  Pass(seconds(20));
  ASSERT_NE(NodeOf("g-0"), "");
  EXPECT_EQ(NodeOf("g-0") < "n2", other < "n2");
  EXPECT_EQ(NodeOf("g-1"), other);
}

TEST_F(PodSchedulerTest, AGangThatCannotBecomeWholeIsRemoved) {
  cluster_.AddNode("n0", "a", 8);
  AddGroup("g", 2);
  AddPod("one", 1, {}, InGroup("g"));
  // As a scheduler that died in between has left it.
  const ApiResponse bound =
      cluster_.Do("POST", "/api/v1/namespaces/ns/pods/one/binding",
                  {{"metadata", {{"name", "one"}}}, {"target", {{"name", "n0"}}}});
  ASSERT_EQ(bound.status, 201) << bound.body;
  Pass(seconds(20));
  EXPECT_EQ(cluster_.Removed(), 0);
  Pass(seconds(40));
  EXPECT_EQ(cluster_.Removed(), 1);
}

TEST_F(PodSchedulerTest, AGangThatWasWholeKeepsItsPodsWhenOneIsGoneForGood) {
  cluster_.AddNode("n0", "a", 8);
  AddGroup("g", 2);
  AddPod("one", 1, {}, InGroup("g"));
  AddPod("two", 1, {}, InGroup("g"));
  Pass(seconds(10));
  ASSERT_EQ(NodeOf("one") + NodeOf("two"), "n0n0");
  Delete("two");
  Pass(minutes(30));
  EXPECT_EQ(NodeOf("one"), "n0");
  EXPECT_EQ(cluster_.Removed(), 0);
}

TEST_F(PodSchedulerTest, PodsThatFitNoMoreOnTheirNodeAreLeftThere) {
  cluster_.AddNode("n0", "a", 8);
  AddPod("ours", 6);
  Pass(seconds(10));
  // Another scheduler binds a pod there that does not fit beside it.
  cluster_.AddForeignPod("foreign", "n0", 6);
  cluster_.ReplaceScheduler();
  AddPod("next", 1);
  Pass(minutes(10));
  EXPECT_EQ(NodeOf("ours"), "n0");
  EXPECT_EQ(NodeOf("next"), "");
  EXPECT_EQ(cluster_.Removed(), 0);
  Delete("foreign");
  Pass(minutes(1));
  EXPECT_EQ(NodeOf("next"), "n0");
  // It is known as one of ours again, which may be evicted.
  AddPod("high", 8, {{"priority", 100}});
  Pass(minutes(1));
  EXPECT_THAT(cluster_.log(), HasSubstr("create pods/eviction ours"));
}

TEST_F(PodSchedulerTest, PodsStayOnANodeThatChanges) {
  for (const char* node : {"n0", "n1"}) cluster_.AddNode(node, "a", 8);
  PatchNode("n1", {{"spec", {{"unschedulable", true}}}});
  AddPod("ours", 4);
  Pass(seconds(10));
  ASSERT_EQ(NodeOf("ours"), "n0");
  PatchNode("n0",
            {{"spec", {{"taints", Json::array({{{"key", "full"}, {"effect", "NoSchedule"}}})}}}});
  PatchNode("n1", {{"spec", {{"unschedulable", nullptr}}}});
  AddPod("whole", 8);
  Pass(seconds(30));
  EXPECT_EQ(NodeOf("whole"), "n1") << "no place is kept for the pod on the other node";
  EXPECT_EQ(cluster_.Removed(), 0);
}

TEST_F(PodSchedulerTest, APodThatEndsHasItsDevicesUntilItIsGone) {
  cluster_.AddNode("n0", "a", 8);
  AddPod("ours", 8);
  Pass(seconds(10));
  cluster_.Do("DELETE", "/api/v1/namespaces/ns/pods/ours", Json::object());
  AddPod("next", 8);
  Pass(minutes(1));
  EXPECT_EQ(NodeOf("next"), "");
  Delete("ours");
  Pass(seconds(10));
  EXPECT_EQ(NodeOf("next"), "n0");
}

TEST_F(PodSchedulerTest, NeedsOfPodsThatAreGoneAreForgotten) {
  cluster_.settings().many_shapes = 16;
  cluster_.ReplaceScheduler();
  cluster_.AddNode("n0", "a", 8);
  const auto needs = [](int milli) {
    const Json limits = {{"cpu", std::to_string(milli) + "m"}, {"nvidia.com/gpu", "1"}};
    return Json{
        {"containers",
         Json::array({{{"name", "main"}, {"image", "x"}, {"resources", {{"limits", limits}}}}})}};
  };
  for (int i = 0; i < 100; ++i) {
    AddPod("p", 1, needs(100 + i));
    Pass(seconds(3));
    ASSERT_EQ(NodeOf("p"), "n0");
    Delete("p");
  }
  EXPECT_GT(cluster_.scheduler().counts().rebuilds, 4u);
  EXPECT_LT(cluster_.scheduler().counts().rebuilds, 30u);
}

TEST_F(PodSchedulerTest, AGangThatLostAPodIsRemovedWhenNoNodeIsFoundInTime) {
  for (const char* node : {"n0", "n1"}) cluster_.AddNode(node, "a", 8);
  AddGroup("g", 2);
  AddPod("one", 8, {}, InGroup("g"));
  AddPod("two", 8, {}, InGroup("g"));
  Pass(seconds(10));
  const std::string node = NodeOf("two");
  ASSERT_NE(node, "");
  Delete("two");
  cluster_.AddForeignPod("foreign", node, 8);
  AddPod("two", 8, {}, InGroup("g"));
  Pass(minutes(4));
  EXPECT_EQ(cluster_.Removed(), 0);
  Pass(minutes(3));
  EXPECT_EQ(cluster_.Removed(), 1);
}

TEST_F(PodSchedulerTest, WaitingIsReportedOnceWhileItsReasonStays) {
  cluster_.AddNode("n0", "a", 8);
  AddPod("large", 8);
  AddPod("next", 8);
  Pass(seconds(10));
  const std::string waits = NodeOf("next").empty() ? "next" : "large";
  EXPECT_THAT(Message(waits), HasSubstr("It waits: "));
  const auto version = [&] {
    return cluster_.api().Find("pods", {"ns", waits})->at("metadata")["resourceVersion"];
  };
  const Json before = version();
  Pass(minutes(20));
  EXPECT_EQ(version(), before);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
