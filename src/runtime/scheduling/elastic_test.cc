// Jobs that start, shrink and grow between bounds, and gangs that are moved.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/scheduling/cluster_fixture.h"

namespace longhaul::runtime::scheduling_testing::elastic_test {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

proto::Job Elastic(const std::string& id, uint32_t minimum, uint32_t nodes, uint32_t maximum) {
  proto::Job job = Gang(id, nodes);
  job.set_minimum_nodes(minimum);
  job.set_maximum_nodes(maximum);
  return job;
}

// Four nodes with two slots each, whose agents keep snapshots for each other.
class ElasticTest : public testing::Test {
 protected:
  ElasticTest() { cluster.peer_port = 9; }
  void JoinNodes(int nodes) {
    for (int i = 1; i <= nodes; ++i) cluster.Join("node-" + std::to_string(i));
  }
  std::vector<uint32_t> SizesOf(const std::string& id) const {
    std::vector<uint32_t> sizes;
    const proto::JobStatus job = cluster.Job(id);
    for (const proto::SizeChange& change : job.sizes()) sizes.push_back(change.nodes());
    return sizes;
  }

  // Until the job leaves its nodes for others.
  void TickUntilItLeaves(const std::string& id) {
    for (int i = 0; i < 120 && cluster.StateOf(id) != proto::LEAVING; ++i) {
      cluster.TickUntil(cluster.now + seconds(1));
    }
    ASSERT_EQ(cluster.StateOf(id), proto::LEAVING);
  }

  static proto::Change Scale(const std::string& id, uint32_t nodes) {
    proto::Change change;
    change.mutable_scale()->set_job_id(id);
    change.mutable_scale()->set_nodes(nodes);
    return change;
  }
  Status Refusal(const std::string& id, uint32_t nodes) const {
    proto::ChangesAsked asked;
    *asked.add_changes() = Scale(id, nodes);
    return cluster.controller.CheckChanges(asked);
  }

  Cluster cluster;
};

TEST_F(ElasticTest, StartsOnWhatIsFreeUpToItsMaximum) {
  JoinNodes(3);
  cluster.Submit(Elastic("a", 1, 2, 4));
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-1", "node-2", "node-3"));
  EXPECT_EQ(cluster.LastStart("a", "node-3").world(), 6u);
  EXPECT_EQ(cluster.LastStart("a", "node-3").nodes(), 3u);
  EXPECT_EQ(cluster.LastStart("a", "node-3").first_rank(), 4u);
  cluster.Submit(Elastic("b", 1, 2, 4));
  EXPECT_EQ(cluster.StateOf("b"), proto::QUEUED) << "nobody shrinks for an equal";
  cluster.Join("node-4");
  EXPECT_THAT(cluster.GangOf("b"), ElementsAre("node-4")) << "at its minimum";
}

TEST_F(ElasticTest, ShrinksForAHigherPriorityAndNobodyStops) {
  JoinNodes(4);
  cluster.Submit(Elastic("a", 1, 2, 4));
  for (int i = 0; i < 3; ++i) cluster.Step("a");
  cluster.Submit(WithPriority(Gang("high", 2), 10));
  EXPECT_EQ(cluster.StateOf("a"), proto::LEAVING) << "a snapshot first";
  EXPECT_EQ(cluster.StateOf("high"), proto::QUEUED);
  cluster.Step("a");
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_EQ(cluster.StateOf("high"), proto::RUNNING);
  EXPECT_EQ(cluster.GangOf("a").size(), 2u);
  EXPECT_EQ(cluster.Job("a").step(), 4u);
  EXPECT_EQ(cluster.Job("a").preemptions(), 0u);
  EXPECT_EQ(cluster.Job("a").resizes(), 1u);
  EXPECT_THAT(SizesOf("a"), ElementsAre(4, 2));
  for (const std::string& node : cluster.GangOf("a")) {
    const auto start = cluster.LastStart("a", node);
    EXPECT_EQ(start.restore().tier(), proto::Restore::TIER_MEMORY) << node;
    EXPECT_EQ(start.restore().step(), 4u);
    EXPECT_EQ(start.world(), 4u);
    EXPECT_EQ(start.lease().first_step(), 5u) << "the next sample is the next one";
  }
}

TEST_F(ElasticTest, GrowsIntoFreeNodesFromAPeersMemory) {
  JoinNodes(4);
  cluster.Submit(WithPriority(Gang("high", 2), 10));
  cluster.Submit(Elastic("a", 1, 2, 4));
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-3", "node-4"));
  for (int i = 0; i < 3; ++i) cluster.Step("a");
  cluster.Stop("high");
  TickUntilItLeaves("a");
  EXPECT_THAT(cluster.Job("a").reason(), HasSubstr("4 nodes in place of 2"));
  cluster.Step("a");
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-3", "node-4", "node-1", "node-2"))
      << "who was there keeps its rank";
  EXPECT_EQ(cluster.LastStart("a", "node-3").restore().tier(), proto::Restore::TIER_MEMORY);
  const auto start = cluster.LastStart("a", "node-1");
  EXPECT_EQ(start.restore().tier(), proto::Restore::TIER_PEER);
  EXPECT_EQ(start.restore().step(), 4u);
  EXPECT_EQ(start.restore().source_rank(), 0u);
  EXPECT_EQ(start.arena_first_rank(), 4u);
}

TEST_F(ElasticTest, AnOperatorScalesARunningJobDownAndUp) {
  JoinNodes(4);
  cluster.Submit(Elastic("a", 1, 2, 4));
  for (int i = 0; i < 3; ++i) cluster.Step("a");
  cluster.Ask({Scale("a", 2)});
  EXPECT_EQ(cluster.StateOf("a"), proto::LEAVING) << "a snapshot first";
  cluster.Step("a");
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-1", "node-2"));
  EXPECT_EQ(cluster.LastStart("a", "node-1").restore().tier(), proto::Restore::TIER_MEMORY);
  EXPECT_EQ(cluster.LastStart("a", "node-1").restore().step(), 4u);
  cluster.TickUntil(cluster.now + std::chrono::hours(1));
  EXPECT_EQ(cluster.GangOf("a").size(), 2u);
  cluster.Submit(Gang("b", 2));
  EXPECT_EQ(cluster.StateOf("b"), proto::RUNNING) << "on the nodes that are free";
  cluster.Stop("b");

  cluster.Step("a");
  cluster.Ask({Scale("a", 4)});
  EXPECT_EQ(cluster.StateOf("a"), proto::LEAVING);
  cluster.Step("a");
  EXPECT_EQ(cluster.GangOf("a").size(), 4u);
  EXPECT_THAT(SizesOf("a"), ElementsAre(4, 2, 4));
  EXPECT_EQ(cluster.Job("a").job().node_limit(), 0u) << "as its file has it";
  EXPECT_THAT(cluster.messages, testing::Contains(HasSubstr("scaled to 2 nodes at most")));
}

TEST_F(ElasticTest, AWaitingJobStartsWithTheNodesToWhichItWasScaled) {
  JoinNodes(3);
  cluster.Submit(Gang("b", 3));
  cluster.Submit(Elastic("a", 1, 2, 4));
  cluster.Ask({Scale("a", 2)});
  cluster.Stop("b");
  EXPECT_EQ(cluster.GangOf("a").size(), 2u);
}

TEST_F(ElasticTest, AScaledJobKeepsItsLimitWhenItsControllerRestarts) {
  JoinNodes(4);
  cluster.Submit(Elastic("a", 1, 2, 4));
  cluster.Ask({Scale("a", 2)});
  cluster.Step("a");
  Controller replayed{Cluster::Patient()};
  for (const auto& [now, event] : cluster.log) (void)replayed.Step(event, now);
  EXPECT_EQ(replayed.StateHash(), cluster.controller.StateHash());
  EXPECT_EQ(replayed.JobStatus(JobId("a"), cluster.now)->job().node_limit(), 2u);
  JoinNodes(5);  // a further node changes the topology: the scheduler is given all jobs again
  cluster.TickUntil(cluster.now + std::chrono::hours(1));
  EXPECT_EQ(cluster.GangOf("a").size(), 2u);
}

TEST_F(ElasticTest, NodesThatAJobCannotHaveAreRefusedWithItsBounds) {
  JoinNodes(4);
  cluster.Submit(Elastic("a", 2, 2, 3));
  cluster.Submit(Gang("fixed", 1));
  const struct {
    const char* job;
    uint32_t nodes;
    Code code;
    const char* says;
  } kRows[] = {
      {"a", 1, Code::kInvalidArgument, "cannot have 1 nodes: its bounds are 2 to 3"},
      {"a", 4, Code::kInvalidArgument, "cannot have 4 nodes: its bounds are 2 to 3"},
      {"fixed", 1, Code::kFailedPrecondition, "job fixed has a fixed number of nodes, 1"},
      {"unknown", 1, Code::kNotFound, "no job with the id unknown"},
  };
  for (const auto& row : kRows) {
    const Status refusal = Refusal(row.job, row.nodes);
    EXPECT_EQ(refusal.code(), row.code) << refusal;
    EXPECT_THAT(refusal.message(), HasSubstr(row.says));
  }
  EXPECT_TRUE(Refusal("a", 2).ok());
  cluster.Stop("a");
  EXPECT_EQ(Refusal("a", 2).code(), Code::kFailedPrecondition) << "it ends";
}

// Two elastic jobs share what there is: what one gives up the other takes, once it is free.
TEST_F(ElasticTest, RunsOnUntilTheNodesItGrowsIntoAreFree) {
  JoinNodes(4);
  cluster.Cordon("node-4", true);
  cluster.Submit(Elastic("a", 1, 2, 4));
  cluster.Submit(Elastic("b", 1, 2, 4));
  cluster.Cordon("node-4", false);
  EXPECT_THAT(cluster.GangOf("b"), ElementsAre("node-4"));
  cluster.Step("a");
  cluster.Step("b");
  TickUntilItLeaves("a");
  EXPECT_EQ(cluster.StateOf("b"), proto::RUNNING) << "its new node is not free yet";
  EXPECT_EQ(cluster.Job("b").attempt(), 1u);
  cluster.Step("a");
  EXPECT_EQ(cluster.GangOf("a").size(), 2u);
  EXPECT_EQ(cluster.StateOf("b"), proto::LEAVING);
  cluster.Step("b");
  EXPECT_EQ(cluster.GangOf("b").size(), 2u);
  EXPECT_EQ(cluster.StateOf("b"), proto::RUNNING);
}

TEST_F(ElasticTest, ALostNodeWithoutAnotherMakesItSmaller) {
  JoinNodes(3);
  cluster.Submit(Elastic("a", 2, 3, 3));
  for (int i = 0; i < 3; ++i) cluster.Step("a");
  for (const std::string& node : cluster.GangOf("a")) cluster.Seal("a", node, 3);
  cluster.Step("a");
  cluster.Lose("node-2");
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-1", "node-3"));
  EXPECT_THAT(cluster.Job("a").faults(0).action(),
              HasSubstr("continue with 2 nodes in place of 3"));
  const auto start = cluster.LastStart("a", "node-3");
  EXPECT_EQ(start.restore().tier(), proto::Restore::TIER_MEMORY);
  EXPECT_EQ(start.restore().step(), 3u);
  EXPECT_EQ(start.first_rank(), 2u) << "ranks are dense again";
  EXPECT_EQ(start.arena_first_rank(), 4u) << "its memory keeps its name";
  cluster.Lose("node-3");
  EXPECT_EQ(cluster.StateOf("a"), proto::RECOVERING) << "below its minimum it waits";
  cluster.Join("node-3", 2, 2);
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-1", "node-3"));
  EXPECT_EQ(cluster.LastStart("a", "node-3").restore().tier(), proto::Restore::TIER_PEER);
  EXPECT_EQ(cluster.LastStart("a", "node-3").restore().source_rank(), 0u);
}

TEST_F(ElasticTest, TheMemoryOfANodeWhoseRanksMovedIsFetchedUnderItsOldName) {
  JoinNodes(3);
  cluster.Submit(Elastic("a", 1, 3, 3));
  for (int i = 0; i < 3; ++i) cluster.Step("a");
  for (const std::string& node : cluster.GangOf("a")) cluster.Seal("a", node, 3);
  cluster.Lose("node-1");
  cluster.Lose("node-2");
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-3"));
  cluster.Join("node-1", 2, 2);
  if (cluster.StateOf("a") != proto::LEAVING) TickUntilItLeaves("a");
  cluster.Step("a");
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-3", "node-1"));
  const auto start = cluster.LastStart("a", "node-1");
  EXPECT_EQ(start.restore().tier(), proto::Restore::TIER_PEER);
  EXPECT_EQ(start.restore().source_rank(), 4u);
}

TEST_F(ElasticTest, ModelsInPartsChangeByWholeReplicasFromMemory) {
  JoinNodes(5);
  proto::Job job = Elastic("a", 2, 4, 4);  // two stages of two tensor parts: two nodes a replica
  job.set_tensor(2);
  job.set_pipeline(2);
  job.mutable_snapshot()->set_replicated(false);
  cluster.Submit(job);
  EXPECT_EQ(cluster.GangOf("a").size(), 4u);
  for (int i = 0; i < 3; ++i) cluster.Step("a");
  cluster.Submit(WithPriority(Gang("high", 2), 10));
  cluster.Step("a");
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_EQ(cluster.GangOf("a").size(), 2u);
  for (const std::string& node : cluster.GangOf("a")) {
    EXPECT_EQ(cluster.LastStart("a", node).restore().tier(), proto::Restore::TIER_PIECES);
    EXPECT_EQ(cluster.LastStart("a", node).restore().saved_attempt(), 1u);
  }
  EXPECT_EQ(cluster.StateOf("high"), proto::RUNNING);
}

TEST_F(ElasticTest, TheLedgerCountsTheRanksThatThereAre) {
  JoinNodes(4);
  const Instant begin = cluster.now;
  cluster.Submit(Elastic("a", 1, 2, 4));
  for (int i = 0; i < 10; ++i) cluster.Step("a");
  cluster.Submit(WithPriority(Gang("high", 2), 10));
  cluster.Step("a");  // 4 nodes for 1.1 s
  for (int i = 0; i < 5; ++i) cluster.Step("a");
  cluster.Lose(cluster.GangOf("a").at(0));
  for (int i = 0; i < 5; ++i) cluster.Step("a");
  const proto::JobStatus job = cluster.Job("a");
  EXPECT_THAT(SizesOf("a"), ElementsAre(4, 2, 1));
  double expected = 0;
  for (int i = 0; i < job.sizes_size(); ++i) {
    const int64_t until =
        i + 1 < job.sizes_size() ? job.sizes(i + 1).at_ns() : ToNanoseconds(cluster.now);
    expected += 2e-9 * job.sizes(i).nodes() * static_cast<double>(until - job.sizes(i).at_ns());
  }
  EXPECT_EQ(job.sizes(0).at_ns(), ToNanoseconds(begin));
  EXPECT_NEAR(job.ledger().rank_seconds(), expected, 1e-9);
  EXPECT_LT(job.ledger().rank_seconds(), 8 * job.ledger().wall_seconds());
}

TEST_F(ElasticTest, BoundsThatCannotBeAreRefused) {
  JoinNodes(2);
  const struct {
    proto::Job job;
    const char* says;
  } kRows[] = {
      {Elastic("a", 3, 2, 4), "wants 2 nodes, outside its own bounds of 3 to 4"},
      {Elastic("a", 1, 2, 17), "makes 34 replicas, more than the 32 sequences"},
  };
  for (const auto& row : kRows) {
    EXPECT_THAT(cluster.controller.CheckSubmission(row.job).message(), HasSubstr(row.says));
  }
  proto::Job parts = Elastic("a", 1, 2, 4);
  parts.set_pipeline(4);
  parts.mutable_snapshot()->set_replicated(false);
  EXPECT_THAT(cluster.controller.CheckSubmission(parts).message(),
              HasSubstr("must be multiples of 2"));
}

constexpr const char* kTwoLeaves = R"(
levels: [leaf]
models: {CPU: {memory: 1GiB}}
kinds: {host: {model: CPU, devices: 2, cpu: 2, memory: 4GiB}}
nodes:
  - {name: node-1, kind: host, at: {leaf: a}}
  - {name: node-2, kind: host, at: {leaf: a}}
  - {name: node-3, kind: host, at: {leaf: b}}
  - {name: node-4, kind: host, at: {leaf: b}}
)";

TEST(Moving, AJobMakesRoomInALeafAndGoesOnElsewhere) {
  Cluster cluster("cluster: cluster.yaml", kTwoLeaves);
  for (const char* node : {"node-1", "node-2", "node-3", "node-4"}) cluster.Join(node);
  for (const char* id : {"a", "b", "c", "d"}) cluster.Submit(Gang(id, 1));
  // One of each leaf ends: two free nodes, no free leaf.
  for (const char* id : {"a", "b", "c", "d"}) {
    const std::string node = cluster.GangOf(id).at(0);
    if (node == "node-2" || node == "node-4") {
      cluster.Stop(id);
    } else {
      cluster.Step(id);
    }
  }
  proto::Job wide = WithPriority(Gang("wide", 2), 10);
  wide.mutable_scheduling()->set_topology("leaf");
  cluster.Submit(wide);
  EXPECT_EQ(cluster.StateOf("wide"), proto::QUEUED);
  std::string moved;
  for (const char* id : {"a", "b", "c", "d"}) {
    if (cluster.StateOf(id) == proto::LEAVING) moved = id;
  }
  ASSERT_FALSE(moved.empty()) << "nobody makes room";
  const std::string from = cluster.GangOf(moved).at(0);
  cluster.Step(moved);
  cluster.Persist(moved, from, 1, 2);
  EXPECT_EQ(cluster.StateOf(moved), proto::RUNNING);
  EXPECT_EQ(cluster.StateOf("wide"), proto::RUNNING);
  EXPECT_NE(cluster.GangOf(moved).at(0), from);
  EXPECT_EQ(cluster.Job(moved).moves(), 1u);
  EXPECT_EQ(cluster.Job(moved).preemptions(), 0u);
  EXPECT_EQ(cluster.LastStart(moved, cluster.GangOf(moved).at(0)).restore().step(), 2u);
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing::elastic_test
