// Jobs whose state is in parts continue in another size from memory: pipelines, and commands of
// whose states nothing is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "runtime/scheduling/cluster_fixture.h"

namespace longhaul::runtime::scheduling_testing {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kPieces = proto::Restore::TIER_PIECES;

// Pipelines of two stages, one worker each, on nodes of two.
proto::Job InStages(uint32_t minimum, uint32_t nodes) {
  proto::Job job = Gang("a", nodes);
  job.set_minimum_nodes(minimum);
  job.set_maximum_nodes(nodes);
  job.set_tensor(1);
  job.set_pipeline(2);
  job.mutable_snapshot()->set_replicated(false);
  return job;
}

class PiecesTest : public testing::Test {
 protected:
  PiecesTest() { cluster.peer_port = 9; }

  void Begin(const proto::Job& job) {
    for (uint32_t i = 1; i <= job.nodes(); ++i) cluster.Join("node-" + std::to_string(i));
    cluster.Submit(job);
    ASSERT_EQ(cluster.GangOf("a").size(), job.nodes());
  }
  // A step that every node seals.
  void StepAndSeal() {
    cluster.Step("a");
    const uint64_t step = cluster.Job("a").step();
    for (const std::string& node : cluster.GangOf("a")) cluster.Seal("a", node, step);
  }
  proto::Restore RestoreOn(const std::string& node) const {
    return cluster.LastStart("a", node).restore();
  }
  // "node:name" of own memories, "node:copy name" of copies, with the rank that sealed it.
  static std::set<std::string> PiecesOf(const proto::Restore& restore) {
    std::set<std::string> pieces;
    for (const auto& piece : restore.pieces()) {
      pieces.insert(piece.node() + (piece.copy() ? ":copy " : ":") + std::to_string(piece.name()) +
                    " of " + std::to_string(piece.rank()));
    }
    return pieces;
  }

  Cluster cluster;
};

TEST_F(PiecesTest, ALostNodesStagesComeFromReplicasInTheSmallerGang) {
  Begin(InStages(2, 3));  // ranks 0 to 2 are the first stage, 3 to 5 the second
  StepAndSeal();
  StepAndSeal();
  cluster.Step("a");
  cluster.Lose("node-2");
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-1", "node-3"));
  EXPECT_THAT(cluster.Job("a").faults(0).action(),
              HasSubstr("from memory in another layout at step 2"));
  const proto::Restore first = RestoreOn("node-1");
  EXPECT_EQ(first.tier(), kPieces);
  EXPECT_EQ(first.step(), 2u);
  EXPECT_EQ(first.saved_attempt(), 1u);
  EXPECT_THAT(PiecesOf(first), ElementsAre("node-1:0 of 0", "node-1:1 of 1"));
  EXPECT_THAT(PiecesOf(RestoreOn("node-3")), ElementsAre("node-3:4 of 4", "node-3:5 of 5"));
  EXPECT_EQ(cluster.LastStart("a", "node-3").arena_first_rank(), 4u);

  // A second fault before the next snapshot: what was sealed under three is still there.
  cluster.Die("a", "node-1");
  cluster.TickUntil(cluster.now + std::chrono::seconds(1));
  EXPECT_EQ(cluster.Job("a").attempt(), 3u);
  EXPECT_EQ(RestoreOn("node-1").tier(), kPieces);
  EXPECT_THAT(PiecesOf(RestoreOn("node-3")), ElementsAre("node-3:4 of 4", "node-3:5 of 5"));

  // Once there is a snapshot of the new layout it is that.
  StepAndSeal();
  cluster.Die("a", "node-1");
  cluster.TickUntil(cluster.now + std::chrono::seconds(1));
  EXPECT_EQ(RestoreOn("node-1").tier(), proto::Restore::TIER_MEMORY);
  EXPECT_EQ(RestoreOn("node-1").step(), 3u);
}

TEST_F(PiecesTest, AStageThatOnlyTheLostNodeHadComesFromItsCopy) {
  Begin(InStages(1, 2));  // node-2 alone has the second stage
  StepAndSeal();
  cluster.Replicate("a", "node-2", "node-1", 1);
  StepAndSeal();
  cluster.Lose("node-2");
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-1"));
  // The newest one never got to the other node: the one before did.
  EXPECT_EQ(RestoreOn("node-1").step(), 1u);
  EXPECT_THAT(
      PiecesOf(RestoreOn("node-1")),
      ElementsAre("node-1:0 of 0", "node-1:1 of 1", "node-1:copy 2 of 2", "node-1:copy 3 of 3"));
}

TEST_F(PiecesTest, WithoutAnyCopyOfAStageItComesFromDisk) {
  Begin(InStages(1, 2));
  StepAndSeal();
  cluster.Persist("a", "node-1", 1, 1);
  cluster.Persist("a", "node-2", 1, 1);
  ASSERT_EQ(cluster.Job("a").committed_step(), 1u);
  StepAndSeal();
  cluster.Lose("node-2");
  EXPECT_EQ(RestoreOn("node-1").step(), 1u);
  EXPECT_EQ(RestoreOn("node-1").tier(), proto::Restore::TIER_DISK);
  EXPECT_THAT(cluster.Job("a").faults(0).action(), HasSubstr("from disk at step 1"));
}

TEST_F(PiecesTest, APieceThatWasDamagedIsNeverOfferedAgain) {
  Begin(InStages(2, 3));
  StepAndSeal();
  for (const auto& [node, holder] :
       {std::pair("node-1", "node-2"), std::pair("node-3", "node-1")}) {
    cluster.Replicate("a", node, holder, 1);
  }
  cluster.Step("a");
  cluster.Lose("node-2");
  ASSERT_THAT(PiecesOf(RestoreOn("node-3")), ElementsAre("node-1:copy 4 of 4", "node-1:copy 5 of 5",
                                                         "node-3:4 of 4", "node-3:5 of 5"));
  proto::SnapshotFailed failed;
  failed.set_step(1);
  failed.set_tier(kPieces);
  failed.set_reason("rank 4's snapshot in the memory of node-3: the hash differs");
  const proto::Restore offered = RestoreOn("node-3");
  for (const auto& piece : offered.pieces()) {
    if (piece.node() == "node-3" && piece.rank() == 4) *failed.add_bad() = piece;
  }
  // Restored all the same: that is reported, and no worker has to start again.
  cluster.Fail("a", "node-3", failed);
  EXPECT_EQ(cluster.Job("a").attempt(), 2u);
  cluster.Die("a", "node-1");
  cluster.TickUntil(cluster.now + std::chrono::seconds(1));
  EXPECT_EQ(cluster.Job("a").attempt(), 3u);
  EXPECT_THAT(PiecesOf(RestoreOn("node-3")),
              ElementsAre("node-1:copy 4 of 4", "node-1:copy 5 of 5"));
  // The copies of it as well: nobody has the second stage now, and nothing is on disk.
  failed.clear_bad();
  *failed.mutable_bad() = RestoreOn("node-3").pieces();
  failed.set_while_restoring(true);
  cluster.Fail("a", "node-3", failed);
  EXPECT_EQ(cluster.Job("a").attempt(), 4u);
  EXPECT_EQ(RestoreOn("node-3").step(), 0u);
  EXPECT_EQ(cluster.Job("a").faults().rbegin()->class_name(), "storage");
}

TEST_F(PiecesTest, OfACommandEveryRanksStateIsNeeded) {
  proto::Job job = InStages(1, 3);
  job.mutable_workload()->set_built_in(false);
  job.mutable_workload()->add_command("train");
  job.set_pipeline(0);
  job.set_tensor(0);
  Begin(job);
  StepAndSeal();
  for (int i = 1; i <= 3; ++i) {
    cluster.Replicate("a", "node-" + std::to_string(i), "node-" + std::to_string(i % 3 + 1), 1);
  }
  StepAndSeal();
  cluster.Replicate("a", "node-3", "node-1", 2);
  cluster.Lose("node-2");
  // Of step 2 nobody has what node-2 sealed.
  EXPECT_EQ(RestoreOn("node-1").step(), 1u);
  EXPECT_EQ(RestoreOn("node-1").tier(), kPieces);
  EXPECT_THAT(
      PiecesOf(RestoreOn("node-1")),
      ElementsAre("node-1:0 of 0", "node-1:1 of 1", "node-1:copy 4 of 4", "node-1:copy 5 of 5",
                  "node-3:4 of 4", "node-3:5 of 5", "node-3:copy 2 of 2", "node-3:copy 3 of 3"));
}

TEST_F(PiecesTest, ShrinksForOthersWithoutWaitingForTheDisk) {
  Begin(InStages(1, 2));
  StepAndSeal();
  cluster.Submit(WithPriority(Gang("high", 1), 10));
  EXPECT_EQ(cluster.StateOf("a"), proto::LEAVING);
  cluster.Step("a");
  EXPECT_EQ(cluster.StateOf("high"), proto::RUNNING);
  ASSERT_EQ(cluster.GangOf("a").size(), 1u);
  const std::string left = cluster.GangOf("a")[0];
  EXPECT_EQ(RestoreOn(left).tier(), kPieces);
  EXPECT_EQ(RestoreOn(left).step(), 2u);
  EXPECT_EQ(RestoreOn(left).pieces_size(), 4) << "also from the node that it has left";
  EXPECT_EQ(cluster.Job("a").committed_step(), 0u);
}

// Of the three nodes one is lost, and then the agent of another one is killed; the new one has
// adopted the snapshots of so many ranks.
void AdoptRanks(Cluster& cluster, uint32_t ranks) {
  cluster.Lose("node-2");
  std::vector<proto::AgentJoined::HeldSnapshot> held(ranks);
  for (uint32_t i = 0; i < ranks; ++i) {
    held[i].set_job_id("a");
    held[i].set_rank(4 + i);
    held[i].set_step(1);
    held[i].set_attempt(1);
  }
  cluster.Join("node-3", 2, 2, held);
  cluster.TickUntil(cluster.now + std::chrono::seconds(1));
}

TEST_F(PiecesTest, WhatANewAgentHasAdoptedStillCounts) {
  Begin(InStages(2, 3));
  StepAndSeal();
  AdoptRanks(cluster, 2);
  EXPECT_EQ(cluster.Job("a").attempt(), 3u);
  EXPECT_EQ(RestoreOn("node-3").tier(), kPieces);
  EXPECT_EQ(RestoreOn("node-3").step(), 1u);
}

TEST_F(PiecesTest, WhatItHasNotAdoptedIsLost) {
  Begin(InStages(2, 3));
  StepAndSeal();
  AdoptRanks(cluster, 1);
  EXPECT_EQ(cluster.Job("a").attempt(), 3u);
  EXPECT_EQ(RestoreOn("node-3").step(), 0u) << "nobody else has the second stage";
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing
