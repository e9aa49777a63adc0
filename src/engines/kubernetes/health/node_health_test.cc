#include "engines/kubernetes/health/node_health.h"

#include <gtest/gtest.h>

#include "engines/kubernetes/health/simulated_nodes.h"

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Names = std::multiset<std::string>;

// The program and the nodes without delays: all changes are observed at once.
class Program {
 public:
  explicit Program(int count, NodeHealthSettings settings = {})
      : settings_(std::move(settings)),
        nodes(count, settings_.most_cordoned),
        health_(std::make_unique<NodeHealth>(settings_)) {}

  void Restart() { health_ = std::make_unique<NodeHealth>(settings_); }

  // Observes, decides and carries out until nothing is left to do. Returns the number of patches.
  int Settle() {
    int patches = 0;
    for (int rounds = 0; rounds < 20; ++rounds) {
      Observe();
      const auto actions = health_->Advance(now_, now_ + minutes(1'000'000));
      if (actions.empty()) return patches;
      for (const NodeAction& action : actions) {
        patches += std::holds_alternative<RecordNodeEvent>(action) ? 0 : 1;
        const ApiResponse response = nodes.Serve(*CallFor(action));
        health_->OnReply(action,
                         response.status == 200   ? PatchResult::kDone
                         : response.status == 409 ? PatchResult::kConflict
                                                  : PatchResult::kRefused,
                         now_);
      }
    }
    ADD_FAILURE() << "it never settles";
    return patches;
  }
  // Time passes, with what is due in between.
  int Pass(Duration time) {
    int patches = Settle();
    const Instant end = now_ + time;
    while (health_->NextDeadline() && *health_->NextDeadline() <= end) {
      now_ = std::max(now_, *health_->NextDeadline());
      patches += Settle();
    }
    now_ = end;
    return patches + Settle();
  }
  std::vector<NodeAction> Decide() {
    Observe();
    return health_->Advance(now_, now_);
  }
  void Reply(const NodeAction& action, PatchResult result) {
    health_->OnReply(action, result, now_);
  }
  void Wait(Duration time) { now_ += time; }
  NodeHealth& health() { return *health_; }

 private:
  void Observe() {
    for (const ObjectName& name : nodes.api().Names("nodes")) {
      EXPECT_TRUE(health_->OnNode(JobJson::parse(nodes.Node(name.name).dump())).ok());
    }
    std::set<std::string> pods;
    for (const ObjectName& name : nodes.api().Names("pods")) {
      health_->OnPod(name.name, JobJson::parse(nodes.api().Find("pods", name)->dump()));
      pods.insert(name.name);
    }
    for (const std::string& pod : pods_) {
      if (!pods.contains(pod)) health_->OnPodGone(pod);
    }
    pods_ = pods;
  }

  NodeHealthSettings settings_;

 public:
  SimulatedNodes nodes;

 private:
  std::unique_ptr<NodeHealth> health_;
  std::set<std::string> pods_;
  Instant now_{};
};

constexpr const char* kDeadlock = "KernelDeadlock";
constexpr const char* kReadonly = "ReadonlyFilesystem";

NodeHealthSettings WithLimit(uint32_t number) {
  NodeHealthSettings settings;
  settings.most_cordoned = {number, false};
  return settings;
}
NodeHealthSettings WithTaint(const std::string& effect) {
  NodeHealthSettings settings;
  settings.taint = effect;
  return settings;
}

std::string ReasonOf(const Program& program, const std::string& node) {
  const Json health = program.nodes.Health(node);
  return health.is_null() ? "" : health.value("reason", "");
}

TEST(NodeLimit, IsANumberOrAShareOfAllNodesAndAtLeastOne) {
  EXPECT_EQ(ParseNodeLimit("10%")->Of(5'000), 500U);
  EXPECT_EQ(ParseNodeLimit("10%")->Of(19), 1U);
  EXPECT_EQ(ParseNodeLimit("10%")->Of(0), 1U);
  EXPECT_EQ(ParseNodeLimit("3")->Of(5'000), 3U);
  for (const char* const text : {"", "0", "0%", "101%", "-1", "%", "1.5%", "10 %"}) {
    EXPECT_FALSE(ParseNodeLimit(text).ok()) << text;
  }
}

TEST(NodeHealth, WritesNothingToHealthyNodes) {
  Program program(3);
  EXPECT_EQ(program.Pass(minutes(60)), 0);
  EXPECT_FALSE(program.health().NextDeadline());
}

TEST(NodeHealth, CordonsWhenEvidenceHasLastedAndSaysWhy) {
  Program program(3);
  program.nodes.SetCondition("n1", kDeadlock, true);
  EXPECT_EQ(program.Pass(seconds(29)), 0);
  EXPECT_EQ(program.Pass(seconds(1)), 2);
  EXPECT_TRUE(program.nodes.IsCordoned("n1"));
  EXPECT_FALSE(program.nodes.IsCordoned("n0"));
  EXPECT_EQ(ReadCordonRecord(program.nodes.Record("n1"))->evidence,
            std::set<std::string>{"KernelDeadlock=True"});
  const Json health = program.nodes.Health("n1");
  EXPECT_EQ(health["status"], "False");
  EXPECT_EQ(health["reason"], "Cordoned");
  EXPECT_EQ(health["message"], "cordoned: KernelDeadlock=True");
  EXPECT_TRUE(health["lastTransitionTime"].is_string());
  EXPECT_EQ(program.nodes.EventReasons(), Names{"Cordoned"});
  EXPECT_TRUE(program.nodes.Taints("n1").empty());
  EXPECT_EQ(program.Pass(minutes(60)), 0);
}

TEST(NodeHealth, IgnoresEvidenceThatComesAndGoes) {
  Program program(3);
  for (int i = 0; i < 20; ++i) {
    program.nodes.SetCondition("n1", kDeadlock, true);
    program.Pass(seconds(20));
    program.nodes.SetCondition("n1", kDeadlock, false);
    program.Pass(seconds(20));
  }
  EXPECT_FALSE(program.nodes.IsCordoned("n1"));
}

TEST(NodeHealth, UncordonsWhenAllEvidenceHasBeenGoneForLong) {
  Program program(3);
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.nodes.SetDevice("p", "n1", "Unhealthy");
  program.Pass(seconds(30));
  program.nodes.SetCondition("n1", kDeadlock, false);
  program.Pass(minutes(10));
  EXPECT_TRUE(program.nodes.IsCordoned("n1"));  // the device still is Unhealthy
  program.nodes.RemovePod("p");
  program.Pass(seconds(299));
  EXPECT_TRUE(program.nodes.IsCordoned("n1"));
  program.Pass(seconds(1));
  EXPECT_FALSE(program.nodes.IsCordoned("n1"));
  EXPECT_EQ(program.nodes.Record("n1"), "");
  EXPECT_EQ(program.nodes.Health("n1")["status"], "True");
  EXPECT_EQ(program.nodes.EventReasons(), (Names{"Cordoned", "Uncordoned"}));
  EXPECT_EQ(program.Pass(minutes(60)), 0);
}

TEST(NodeHealth, BeginsToCountTheReleaseAnewWhenEvidenceComesBack) {
  Program program(3);
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Pass(seconds(30));
  for (int i = 0; i < 5; ++i) {
    program.nodes.SetCondition("n1", kDeadlock, false);
    program.Pass(minutes(4));
    program.nodes.SetCondition("n1", kDeadlock, true);
    program.Pass(seconds(5));
  }
  EXPECT_TRUE(program.nodes.IsCordoned("n1"));
}

TEST(NodeHealth, LeavesANodeCordonedThatSomebodyElseCordonedBefore) {
  Program program(3);
  program.nodes.UserCordons("n1", true);
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Pass(minutes(1));
  EXPECT_EQ(ReasonOf(program, "n1"), "CordonedByOthers");
  EXPECT_EQ(program.nodes.Record("n1"), "");
  program.nodes.SetCondition("n1", kDeadlock, false);
  program.Pass(minutes(10));
  EXPECT_TRUE(program.nodes.IsCordoned("n1"));
  EXPECT_EQ(program.nodes.Health("n1")["status"], "True");
  EXPECT_EQ(program.nodes.EventReasons(), (Names{"CordonedByOthers", "NoEvidence"}));
}

TEST(NodeHealth, DoesNotCordonAgainForTheSameEvidenceWhatSomebodyUncordoned) {
  Program program(3);
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Pass(minutes(1));
  program.nodes.UserCordons("n1", false);
  program.Pass(minutes(60));
  program.Restart();
  program.Pass(minutes(60));
  EXPECT_FALSE(program.nodes.IsCordoned("n1"));
  EXPECT_EQ(ReasonOf(program, "n1"), "UncordonedByOthers");
  EXPECT_EQ(program.nodes.cordons(), 1);
}

TEST(NodeHealth, CordonsAgainForNewEvidence) {
  Program program(3);
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Pass(minutes(1));
  program.nodes.UserCordons("n1", false);
  program.nodes.SetCondition("n1", kReadonly, true);
  program.Pass(minutes(1));
  EXPECT_TRUE(program.nodes.IsCordoned("n1"));
  EXPECT_EQ(ReadCordonRecord(program.nodes.Record("n1"))->evidence.size(), 2U);
  program.nodes.UserCordons("n1", false);
  program.Pass(minutes(60));
  EXPECT_FALSE(program.nodes.IsCordoned("n1"));
}

TEST(NodeHealth, CordonsAgainForTheSameEvidenceAfterARelease) {
  Program program(3);
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Pass(minutes(1));
  program.nodes.UserCordons("n1", false);
  program.nodes.SetCondition("n1", kDeadlock, false);
  program.Pass(minutes(6));
  EXPECT_EQ(program.nodes.Record("n1"), "");
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Pass(minutes(1));
  EXPECT_TRUE(program.nodes.IsCordoned("n1"));
}

TEST(NodeHealth, RecordsEvidenceThatComesWhileTheNodeIsCordoned) {
  Program program(3);
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Pass(minutes(1));
  program.nodes.SetCondition("n1", kReadonly, true);
  program.Pass(minutes(1));
  program.nodes.UserCordons("n1", false);
  program.Pass(minutes(60));
  EXPECT_FALSE(program.nodes.IsCordoned("n1"));
}

TEST(NodeHealth, LeavesANodeThatSomebodyUncordonedAndCordonedAgain) {
  Program program(3);
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Pass(minutes(1));
  program.nodes.UserCordons("n1", false);
  program.nodes.UserCordons("n1", true);  // without a moment to observe it
  program.Pass(minutes(1));
  EXPECT_EQ(ReasonOf(program, "n1"), "CordonedByOthers");
  program.nodes.SetCondition("n1", kDeadlock, false);
  program.Pass(minutes(10));
  EXPECT_TRUE(program.nodes.IsCordoned("n1"));
  EXPECT_EQ(program.nodes.Record("n1"), "");
  EXPECT_EQ(program.nodes.violations(), "");
}

TEST(NodeHealth, CordonsAtMostTheLimitAndTheOldestEvidenceFirst) {
  Program program(5, WithLimit(2));
  for (const char* const node : {"n4", "n2", "n0"}) {
    program.nodes.SetCondition(node, kDeadlock, true);
    program.Pass(seconds(10));
  }
  program.Pass(minutes(10));
  EXPECT_TRUE(program.nodes.IsCordoned("n4") && program.nodes.IsCordoned("n2"));
  EXPECT_FALSE(program.nodes.IsCordoned("n0"));
  EXPECT_EQ(ReasonOf(program, "n0"), "LimitReached");
  EXPECT_EQ(program.nodes.EventReasons(), (Names{"Cordoned", "Cordoned", "LimitReached"}));
  // A place becomes free.
  program.nodes.SetCondition("n4", kDeadlock, false);
  program.Pass(minutes(6));
  EXPECT_TRUE(program.nodes.IsCordoned("n0"));
  EXPECT_EQ(ReasonOf(program, "n0"), "Cordoned");
}

TEST(NodeHealth, OfTwoThatAreConfirmedAtOnceTheOlderEvidenceComesFirst) {
  Program program(3, WithLimit(1));
  program.nodes.SetCondition("n2", kDeadlock, true);
  program.Settle();
  program.Wait(seconds(5));
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Settle();
  program.Wait(minutes(1));
  program.Settle();
  EXPECT_TRUE(program.nodes.IsCordoned("n2"));
  EXPECT_FALSE(program.nodes.IsCordoned("n1"));
}

// The write may have been carried out: another node does not get the place, whatever is seen of it.
TEST(NodeHealth, KeepsThePlaceOfACordonWhoseAnswerIsLost) {
  Program program(3, WithLimit(1));
  program.nodes.SetCondition("n0", kDeadlock, true);
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Settle();
  program.Wait(seconds(30));
  const auto actions = program.Decide();
  ASSERT_EQ(std::get<PatchNode>(actions[0]).node, "n0");
  program.Reply(actions[0], PatchResult::kUnknown);
  for (size_t i = 1; i < actions.size(); ++i) program.Reply(actions[i], PatchResult::kDone);
  program.nodes.Touch("n1");
  for (const NodeAction& action : program.Decide()) {
    const auto* patch = std::get_if<PatchNode>(&action);
    EXPECT_FALSE(patch != nullptr && patch->node == "n1") << "n0 may be cordoned";
  }
}

TEST(NodeHealth, KeepsToTheLimitAfterARestart) {
  Program program(4, WithLimit(1));
  program.nodes.SetCondition("n3", kDeadlock, true);
  program.Pass(minutes(1));
  program.Restart();
  for (const char* const node : {"n0", "n1", "n2"})
    program.nodes.SetCondition(node, kDeadlock, true);
  program.Pass(minutes(10));
  EXPECT_EQ(program.nodes.cordons(), 1);
  program.Restart();
  program.nodes.SetCondition("n3", kDeadlock, false);
  program.Pass(minutes(4));
  EXPECT_TRUE(program.nodes.IsCordoned("n3"));
  program.Pass(minutes(2));
  EXPECT_FALSE(program.nodes.IsCordoned("n3"));
  EXPECT_TRUE(program.nodes.IsCordoned("n0"));
}

// Another write of somebody else between the decision and the patch.
TEST(NodeHealth, RepeatsADecisionOnTheNewStateAfterAConflict) {
  Program program(3, WithTaint("NoSchedule"));
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Settle();
  program.Wait(seconds(30));
  const auto actions = program.Decide();
  ASSERT_EQ(actions.size(), 1U);
  program.nodes.UserTaints("n1", "mine");
  ASSERT_EQ(program.nodes.Serve(*CallFor(actions[0])).status, 409);
  program.Reply(actions[0], PatchResult::kConflict);
  program.Pass(seconds(20));
  EXPECT_TRUE(program.nodes.IsCordoned("n1"));
  EXPECT_EQ(program.nodes.Taints("n1"), (std::set<std::string>{"mine", "longhaul.dev/unhealthy"}));
}

TEST(NodeHealth, CountsACordonWithoutAnAnswer) {
  Program program(3, WithLimit(1));
  program.nodes.SetCondition("n0", kDeadlock, true);
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Settle();
  program.Wait(seconds(30));
  const auto actions = program.Decide();
  ASSERT_EQ(std::get<PatchNode>(actions[0]).node, "n0");
  program.Reply(actions[0], PatchResult::kUnknown);
  for (const NodeAction& action : program.Decide()) {
    EXPECT_FALSE(std::holds_alternative<PatchNode>(action));
  }
  program.Wait(seconds(1));
  const auto again = program.Decide();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(std::get<PatchNode>(again[0]).node, "n0");
}

TEST(NodeHealth, GivesThePlaceOfARefusedCordonToAnotherNode) {
  Program program(3, WithLimit(1));
  program.nodes.SetCondition("n0", kDeadlock, true);
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Settle();
  program.Wait(seconds(30));
  const auto actions = program.Decide();
  program.Reply(actions[0], PatchResult::kRefused);
  for (const NodeAction& other : {actions[1], actions[2]}) {
    program.Reply(other, PatchResult::kDone);
  }
  program.nodes.Touch("n1");
  const auto next = program.Decide();
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(std::get<PatchNode>(next[0]).node, "n1");
}

TEST(NodeHealth, TaintsCordonedNodesAndRemovesOnlyItsOwnTaint) {
  Program program(3, WithTaint("NoExecute"));
  program.nodes.UserTaints("n1", "mine");
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Pass(minutes(1));
  EXPECT_EQ(program.nodes.Node("n1")["spec"]["taints"][1]["effect"], "NoExecute");
  program.nodes.UserTaints("n1", "later");
  program.nodes.SetCondition("n1", kDeadlock, false);
  program.Pass(minutes(10));
  EXPECT_EQ(program.nodes.Taints("n1"), (std::set<std::string>{"mine", "later"}));
}

TEST(NodeHealth, LeavesATaintOfItsKeyThatSomebodyElseAdded) {
  Program program(3, WithTaint("NoSchedule"));
  program.nodes.UserTaints("n1", "longhaul.dev/unhealthy");
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Pass(minutes(1));
  EXPECT_EQ(program.nodes.Node("n1")["spec"]["taints"].size(), 1U);
  program.nodes.SetCondition("n1", kDeadlock, false);
  program.Pass(minutes(10));
  EXPECT_FALSE(program.nodes.IsCordoned("n1"));
  EXPECT_EQ(program.nodes.Taints("n1"), std::set<std::string>{"longhaul.dev/unhealthy"});
}

TEST(NodeHealth, RemovesItsTaintFromANodeThatSomebodyUncordoned) {
  Program program(3, WithTaint("NoExecute"));
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Pass(minutes(1));
  program.nodes.UserCordons("n1", false);
  program.Pass(minutes(1));
  EXPECT_TRUE(program.nodes.Taints("n1").empty());
  EXPECT_EQ(ReasonOf(program, "n1"), "UncordonedByOthers");
}

TEST(NodeHealth, DoesNotUncordonWithoutTheAnnotation) {
  Program program(3);
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Pass(minutes(1));
  const Json body = {{"metadata", {{"annotations", {{kCordonAnnotation, nullptr}}}}}};
  ApiRequest request = RequestFor("PATCH", "/api/v1/nodes/n1", body.dump());
  request.content_type = "application/merge-patch+json";
  ASSERT_EQ(program.nodes.api().Handle(request).status, 200);
  program.nodes.SetCondition("n1", kDeadlock, false);
  program.Pass(minutes(10));
  EXPECT_TRUE(program.nodes.IsCordoned("n1"));
}

TEST(NodeHealth, WritesAChangedMessageAtMostOnceAPeriod) {
  Program program(3);
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Pass(minutes(1));
  int patches = 0;
  for (int i = 0; i < 30; ++i) {
    Json condition = {{"type", kDeadlock}, {"status", "True"}, {"message", std::to_string(i)}};
    ApiRequest request =
        RequestFor("PATCH", "/api/v1/nodes/n1/status",
                   Json{{"status", {{"conditions", Json::array({condition})}}}}.dump());
    request.content_type = "application/strategic-merge-patch+json";
    ASSERT_EQ(program.nodes.api().Handle(request).status, 200);
    patches += program.Pass(seconds(1));
  }
  EXPECT_LE(patches, 3);
  EXPECT_GE(patches, 2);
}

TEST(NodeHealth, ForgetsTheEvidenceOfANodeThatWasMadeAnew) {
  Program program(3);
  program.nodes.SetCondition("n1", kDeadlock, true);
  program.Pass(seconds(20));
  program.nodes.api().Remove("nodes", {"", "n1"});
  program.health().OnNodeGone("n1");
  program.Pass(minutes(1));
  EXPECT_EQ(program.health().nodes(), 2U);
  EXPECT_EQ(program.health().cordoned(), 0U);
}

TEST(NodeHealth, ReadsTheTaintsOfDevices) {
  NodeHealth health{NodeHealthSettings()};
  SimulatedNodes nodes(1, {});
  ASSERT_TRUE(health.OnNode(JobJson::parse(nodes.Node("n0").dump())).ok());
  const auto has_evidence = [&] {
    health.Advance(Instant(), Instant());
    return health.NextDeadline().has_value();
  };
  health.OnSlice("s", JobJson::parse(R"({"spec": {"driver": "d", "nodeName": "n0",
      "pool": {"name": "p"}, "devices": [{"name": "gpu-0"}]}})"));
  EXPECT_FALSE(has_evidence());
  health.OnTaintRule("r", JobJson::parse(R"({"spec": {"deviceSelector": {"device": "gpu-0"},
      "taint": {"key": "k", "effect": "NoExecute"}}})"));
  EXPECT_TRUE(has_evidence());
  health.OnSliceGone("s");
  EXPECT_FALSE(has_evidence());
  health.OnSlice("s", JobJson::parse(R"({"spec": {"nodeName": "n0", "devices": [
      {"name": "gpu-0"}]}})"));
  EXPECT_TRUE(has_evidence());
  health.OnTaintRuleGone("r");
  EXPECT_FALSE(has_evidence());
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
