// Rules of the network that a job names: required and preferred levels, slices, spread, rails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "runtime/scheduling/cluster_fixture.h"

namespace longhaul::runtime::scheduling_testing {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// Two blocks of two leaves of three nodes each: a-1 to a-3 in leaf a, and so on.
const std::string kFourLeaves = R"(
levels: [leaf, block]
models: {H100: {memory: 80GiB}}
kinds: {host: {model: H100, devices: 2, cpu: 16, memory: 8GiB}}
nodes:
  - {kind: host, prefix: a-, hosts: 3, at: {block: one, leaf: a}}
  - {kind: host, prefix: b-, hosts: 3, at: {block: one, leaf: b}}
  - {kind: host, prefix: c-, hosts: 3, at: {block: two, leaf: c}}
  - {kind: host, prefix: d-, hosts: 3, at: {block: two, leaf: d}}
)";

class Topology : public testing::Test {
 protected:
  Topology() : cluster_("cluster: cluster.yaml\n", kFourLeaves) {
    for (const char* leaf : {"a", "b", "c", "d"}) {
      for (const char* host : {"-1", "-2", "-3"}) cluster_.Join(std::string(leaf) + host);
    }
  }
  static proto::Job InSlices(proto::Job job, uint32_t nodes, const std::string& level) {
    job.mutable_scheduling()->set_slice_nodes(nodes);
    job.mutable_scheduling()->set_slice_level(level);
    return job;
  }
  static proto::Job SpreadOver(proto::Job job, const std::string& level, uint32_t most = 0) {
    job.mutable_scheduling()->set_spread_level(level);
    job.mutable_scheduling()->set_spread_at_most(most);
    return job;
  }
  // A job that stays on each of these nodes, which the cluster has free.
  void Hold(const std::vector<std::string>& nodes) {
    for (const proto::NodeStatus& node : cluster_.controller.AllNodes()) {
      const bool held = std::find(nodes.begin(), nodes.end(), node.name()) != nodes.end();
      if (!held) cluster_.Cordon(node.name(), true);
    }
    for (const std::string& node : nodes) {
      proto::Job job = Gang("on-" + node, 1);
      job.mutable_scheduling()->set_preemption("never");
      cluster_.Submit(job);
    }
    for (const proto::NodeStatus& node : cluster_.controller.AllNodes()) {
      if (node.cordoned()) cluster_.Cordon(node.name(), false);
    }
  }
  scheduler::Explanation Why(const std::string& id) {
    const auto question = cluster_.controller.AskWhy(JobId(id));
    EXPECT_TRUE(question.scheduler.has_value()) << question.aside;
    if (!question.scheduler) return {};
    const auto why = question.scheduler->Explain(JobId(id), cluster_.now, question.means);
    EXPECT_TRUE(why.ok()) << why.status();
    return why.ok() ? *why : scheduler::Explanation();
  }
  std::string Refusal(const proto::Job& job) {
    return std::string(cluster_.controller.CheckSubmission(job).message());
  }
  // The number of the job's nodes in each leaf.
  std::map<char, int> Leaves(const std::string& id) {
    std::map<char, int> counts;
    for (const std::string& node : cluster_.GangOf(id)) ++counts[node[0]];
    return counts;
  }

  Cluster cluster_;
};

TEST_F(Topology, SlicesLieInOneLeafEach) {
  cluster_.Submit(InSlices(Gang("a", 4), 2, "leaf"));
  ASSERT_EQ(cluster_.StateOf("a"), proto::RUNNING);
  for (const auto& [leaf, nodes] : Leaves("a")) EXPECT_EQ(nodes, 2) << leaf;
  cluster_.Submit(InSlices(Gang("b", 3), 3, "leaf"));
  EXPECT_THAT(Leaves("b"), ElementsAre(testing::Pair(testing::AnyOf('c', 'd'), 3)));
}

TEST_F(Topology, SlicesThatNoDomainCanHoldAreRefusedWithTheLargestSize) {
  EXPECT_THAT(Refusal(InSlices(Gang("a", 4), 4, "leaf")),
              HasSubstr("the largest size that fits this cluster is 0"));
  EXPECT_THAT(Refusal(InSlices(Gang("a", 10), 2, "leaf")),
              HasSubstr("the largest size that fits this cluster is 8"));
  EXPECT_EQ(Refusal(InSlices(Gang("a", 8), 2, "leaf")), "");
  proto::Job block = InSlices(Gang("a", 6), 2, "leaf");
  block.mutable_scheduling()->set_topology("block");
  EXPECT_THAT(Refusal(block), HasSubstr("the largest size that fits one of its domains is 4"));
}

TEST_F(Topology, AnElasticJobChangesItsSizeByWholeSlices) {
  proto::Job job = InSlices(Gang("a", 4), 2, "leaf");
  job.set_minimum_nodes(2);
  job.set_maximum_nodes(8);
  cluster_.Submit(job);
  EXPECT_THAT(cluster_.GangOf("a"), SizeIs(8));
  for (const auto& [leaf, nodes] : Leaves("a")) EXPECT_EQ(nodes, 2) << leaf;
  // Six nodes for another job: four are free, and a slice of two leaves.
  cluster_.Step("a");
  proto::Job other = WithPriority(Gang("b", 6), 10);
  cluster_.Submit(other);
  for (int i = 0; i < 3; ++i) cluster_.Step("a");
  EXPECT_EQ(cluster_.StateOf("b"), proto::RUNNING);
  EXPECT_THAT(cluster_.GangOf("a"), SizeIs(testing::AnyOf(2, 4, 6)));
  for (const auto& [leaf, nodes] : Leaves("a")) EXPECT_EQ(nodes % 2, 0) << leaf;
}

TEST_F(Topology, ALevelThatIsNotDeclaredIsRefusedWithTheNearest) {
  proto::Job job = Gang("a", 2);
  job.mutable_scheduling()->set_topology("lef");
  EXPECT_THAT(Refusal(job), HasSubstr("the cluster has no level 'lef'; did you mean 'leaf'"));
  job = Gang("a", 2);
  job.mutable_scheduling()->set_preferred_topology("blok");
  EXPECT_THAT(Refusal(job), HasSubstr("preferred: the cluster has no level 'blok'; did you mean"));
  EXPECT_THAT(Refusal(InSlices(Gang("a", 2), 2, "rack")),
              HasSubstr("slice: the cluster has no level 'rack'; there is leaf, block"));
}

TEST_F(Topology, LevelsInAContradictoryOrderAreRefused) {
  for (const char* preferred : {"leaf", "block"}) {
    proto::Job job = Gang("a", 2);
    job.mutable_scheduling()->set_topology("leaf");
    job.mutable_scheduling()->set_preferred_topology(preferred);
    EXPECT_THAT(Refusal(job), HasSubstr("is not below the required level 'leaf'"));
  }
  proto::Job slices = InSlices(Gang("a", 2), 2, "block");
  slices.mutable_scheduling()->set_topology("leaf");
  EXPECT_THAT(Refusal(slices), HasSubstr("slice: 'block' is not below the required level 'leaf'"));
  EXPECT_THAT(Refusal(InSlices(Gang("a", 5), 2, "leaf")), HasSubstr("do not divide"));
}

TEST_F(Topology, TheStatusNamesThePreferredDomainThatHoldsAllNodes) {
  proto::Job job = Gang("a", 3);
  job.mutable_scheduling()->set_topology("block");
  job.mutable_scheduling()->set_preferred_topology("leaf");
  cluster_.Submit(job);
  ASSERT_THAT(cluster_.GangOf("a"), SizeIs(3));
  EXPECT_THAT(cluster_.GangOf("a"),
              Each(testing::StartsWith(cluster_.Job("a").preferred_domain() + "-")));
  job = Gang("b", 4);
  job.mutable_scheduling()->set_preferred_topology("leaf");
  cluster_.Submit(job);
  ASSERT_THAT(cluster_.GangOf("b"), SizeIs(4));
  EXPECT_EQ(cluster_.Job("b").preferred_domain(), "");
}

TEST_F(Topology, AnExplanationNamesTheSlices) {
  // One node of each leaf is taken: no leaf has three free ones.
  for (const char* id : {"a", "b", "c", "d"}) {
    proto::Job job = Gang(id, 1);
    job.mutable_scheduling()->set_preemption("never");
    cluster_.Submit(job);
  }
  proto::Job full = Gang("full", 8);
  full.mutable_scheduling()->set_preemption("never");
  cluster_.Submit(full);
  cluster_.Submit(InSlices(Gang("sliced", 3), 3, "leaf"));
  ASSERT_EQ(cluster_.StateOf("sliced"), proto::QUEUED);
  EXPECT_THAT(Why("sliced").sentence, HasSubstr("each 3 of them within one leaf"));
}

TEST_F(Topology, ASpreadJobLiesOverTheLeavesAsEvenlyAsPossible) {
  cluster_.Submit(SpreadOver(Gang("a", 4), "leaf"));
  EXPECT_THAT(Leaves("a"), SizeIs(4));
  cluster_.Stop("a");
  cluster_.Step("a");
  ASSERT_NE(cluster_.StateOf("a"), proto::RUNNING);
  // Eight nodes, two of each leaf, and each a node of its own although it has room for two workers.
  cluster_.Submit(SpreadOver(Gang("b", 8, 1), "leaf", 2));
  const std::vector<std::string> gang = cluster_.GangOf("b");
  EXPECT_THAT(std::set<std::string>(gang.begin(), gang.end()), SizeIs(8));
  for (const auto& [leaf, nodes] : Leaves("b")) EXPECT_EQ(nodes, 2) << leaf;
}

TEST_F(Topology, ASpreadJobStaysInItsRequiredBlock) {
  Hold({"a-1", "a-2"});
  proto::Job job = SpreadOver(Gang("spread", 4), "leaf");
  job.mutable_scheduling()->set_topology("block");
  cluster_.Submit(job);
  EXPECT_EQ(Leaves("spread"), (std::map<char, int>{{'c', 2}, {'d', 2}}));
}

TEST_F(Topology, ASpreadThatNoClusterCouldKeepIsRefused) {
  EXPECT_THAT(Refusal(SpreadOver(Gang("a", 2), "lef")),
              HasSubstr("topology: spread: the cluster has no level 'lef'; did you mean 'leaf'"));
  EXPECT_EQ(Refusal(SpreadOver(Gang("a", 8), "leaf", 2)), "");
  EXPECT_THAT(Refusal(SpreadOver(Gang("a", 9), "leaf", 2)),
              HasSubstr("the largest size that fits this cluster with at most 2 in one leaf is 8"));
  EXPECT_EQ(Refusal(SpreadOver(Gang("a", 12), "leaf")), "");
  EXPECT_THAT(Refusal(SpreadOver(Gang("a", 13), "leaf")),
              HasSubstr("the largest size that fits this cluster is 12"));
  for (const char* level : {"leaf", "block"}) {
    proto::Job job = SpreadOver(Gang("a", 2), level);
    job.mutable_scheduling()->set_topology("leaf");
    EXPECT_THAT(Refusal(job), HasSubstr("is not below the required level 'leaf'"));
  }
  proto::Job block = SpreadOver(Gang("a", 5), "leaf", 2);
  block.mutable_scheduling()->set_topology("block");
  EXPECT_THAT(Refusal(block), HasSubstr("one of its domains with at most 2 in one leaf is 4"));
  EXPECT_THAT(Refusal(SpreadOver(InSlices(Gang("a", 4), 2, "leaf"), "leaf")),
              HasSubstr("spread cannot be combined with slice"));
  proto::Job preferring = SpreadOver(Gang("a", 4), "leaf");
  preferring.mutable_scheduling()->set_preferred_topology("block");
  EXPECT_THAT(Refusal(preferring), HasSubstr("spread cannot be combined with preferred"));
  proto::Job aligned = SpreadOver(Gang("a", 4), "leaf");
  aligned.mutable_scheduling()->set_rail_aligned(true);
  EXPECT_THAT(Refusal(aligned), HasSubstr("spread cannot be combined with rail_aligned"));
}

TEST_F(Topology, ALostNodeOfASpreadJobIsReplacedInItsLeaf) {
  cluster_.Submit(SpreadOver(Gang("a", 4), "leaf", 1));
  ASSERT_THAT(Leaves("a"), SizeIs(4));
  cluster_.Step("a");
  cluster_.Lose(cluster_.GangOf("a")[1]);
  ASSERT_EQ(cluster_.StateOf("a"), proto::RUNNING);
  EXPECT_THAT(Leaves("a"), SizeIs(4));
}

TEST_F(Topology, AnElasticSpreadJobGrowsWithinItsBound) {
  Hold({"a-1", "a-2", "b-1", "b-2"});
  proto::Job job = SpreadOver(Gang("a", 4), "leaf", 2);
  job.set_minimum_nodes(2);
  job.set_maximum_nodes(8);
  cluster_.Submit(job);
  EXPECT_EQ(Leaves("a"), (std::map<char, int>{{'a', 1}, {'b', 1}, {'c', 2}, {'d', 2}}));
  cluster_.Step("a");
  cluster_.Stop("on-a-1");
  cluster_.Step("on-a-1");
  for (int i = 0; i < 20; ++i) {
    cluster_.TickUntil(cluster_.now + std::chrono::minutes(1));
    cluster_.Step("a");
  }
  EXPECT_EQ(Leaves("a"), (std::map<char, int>{{'a', 2}, {'b', 1}, {'c', 2}, {'d', 2}}));
}

TEST_F(Topology, TheBoundOfASpreadThatBlocksIsNamedAndCanBeRaised) {
  Hold({"a-1", "a-2", "a-3", "b-1", "b-2", "b-3"});
  cluster_.Submit(SpreadOver(Gang("spread", 4), "leaf", 1));
  ASSERT_EQ(cluster_.StateOf("spread"), proto::QUEUED);
  const scheduler::Explanation why = Why("spread");
  EXPECT_THAT(why.sentence, HasSubstr("at most 1 in one leaf (without this bound 6 would fit)"));
  EXPECT_THAT(why.fix_texts, ElementsAre("allow at most 2 in one leaf instead of 1"));
  const Controller::Remedy remedy = cluster_.controller.RemedyOf(JobId("spread"), why.fix);
  ASSERT_THAT(remedy.changes, SizeIs(1));
  cluster_.Ask(remedy.changes);
  EXPECT_EQ(Leaves("spread"), (std::map<char, int>{{'c', 2}, {'d', 2}}));
  EXPECT_EQ(cluster_.Job("spread").job().scheduling().spread_at_most(), 2u);
  Controller replayed{Cluster::Patient()};
  for (const auto& [now, event] : cluster_.log) (void)replayed.Step(event, now);
  EXPECT_EQ(replayed.StateHash(), cluster_.controller.StateHash());
}

TEST_F(Topology, TheLastBoundOfASpreadIsGivenUp) {
  Hold({"a-1", "a-2", "a-3", "b-1", "b-2", "b-3", "c-1", "c-2", "c-3"});
  cluster_.Submit(SpreadOver(Gang("spread", 3), "leaf", 1));
  const scheduler::Explanation why = Why("spread");
  EXPECT_THAT(why.fix_texts, ElementsAre("allow any number of its tasks in one leaf"));
  cluster_.Ask(cluster_.controller.RemedyOf(JobId("spread"), why.fix).changes);
  EXPECT_EQ(Leaves("spread"), (std::map<char, int>{{'d', 3}}));
  EXPECT_EQ(cluster_.Job("spread").job().scheduling().spread_at_most(), 0u);
  EXPECT_EQ(cluster_.Job("spread").job().scheduling().spread_level(), "leaf");
}

TEST_F(Topology, RailAlignmentNeedsWholeDevicesAndNoSlices) {
  proto::Job job = Gang("a", 2);
  job.mutable_scheduling()->set_rail_aligned(true);
  EXPECT_EQ(Refusal(job), "");
  EXPECT_THAT(Refusal(InSlices(job, 2, "leaf")), HasSubstr("cannot be combined with slice"));
  Cluster undeclared;
  undeclared.Join("node-1");
  EXPECT_THAT(std::string(undeclared.controller.CheckSubmission(job).message()),
              HasSubstr("rail_aligned needs a cluster file"));
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing
