// Rules of the network that a job names: required and preferred levels, slices, rails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  const auto question = cluster_.controller.AskWhy(JobId("sliced"));
  ASSERT_TRUE(question.scheduler.has_value()) << question.aside;
  const auto why = question.scheduler->Explain(JobId("sliced"), cluster_.now, question.means);
  ASSERT_TRUE(why.ok()) << why.status();
  EXPECT_THAT(why->sentence, HasSubstr("each 3 of them within one leaf"));
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
