// Who keeps copies of whose snapshots, and what comes back from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/controller/cluster_fixture.h"

namespace longhaul::runtime {
namespace {

using namespace controller_testing;
using std::chrono::seconds;

// Two nodes that keep copies for each other, each rank with a state of its own unless `replicated`.
Cluster RunningWithPeers(bool replicated = false) {
  Cluster cluster;
  cluster.peer_port = 7000;
  cluster.Join("node-1");
  cluster.Join("node-2");
  proto::Job job = TwoByTwo();
  job.mutable_snapshot()->set_replicated(replicated);
  cluster.Submit(job);
  cluster.Start();
  return cluster;
}

void LoseAndReturn(Cluster& cluster, const std::string& node) {
  cluster.Disconnect(node);
  cluster.TickUntil(cluster.now + seconds(2));
  cluster.Join(node, cluster.incarnation[node] + 1);
  cluster.Start();
}

TEST(ControllerPeers, EachNodeIsGivenTheNextOneAsItsKeeper) {
  Cluster cluster = RunningWithPeers();
  const auto one = cluster.Last("node-1", proto::Command::kStartWorkers).start_workers();
  const auto two = cluster.Last("node-2", proto::Command::kStartWorkers).start_workers();
  EXPECT_EQ(one.peer_node(), "node-2");
  EXPECT_EQ(one.peer_port(), 7000u);
  EXPECT_EQ(two.peer_node(), "node-1");
  Cluster without = Running();
  EXPECT_EQ(without.Last("node-1", proto::Command::kStartWorkers).start_workers().peer_port(), 0u);
}

TEST(ControllerPeers, ALostNodesStateComesFromItsKeepersMemory) {
  Cluster cluster = RunningWithPeers();
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  cluster.Copy("node-1", 10, "node-2");
  cluster.Copy("node-2", 10, "node-1");
  cluster.Steps(11, 12);
  cluster.SealAll(12);  // sealed, but the copy of node 2 has not arrived
  cluster.Copy("node-1", 12, "node-2");
  LoseAndReturn(cluster, "node-2");
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), proto::Restore::TIER_PEER);
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 10u);
  EXPECT_EQ(cluster.RestoreOf("node-2").source_port(), 7000u);
  EXPECT_FALSE(cluster.RestoreOf("node-2").has_source_rank()) << "each rank its own";
  EXPECT_EQ(cluster.RestoreOf("node-1").tier(), proto::Restore::TIER_MEMORY);
  EXPECT_EQ(cluster.RestoreOf("node-1").step(), 10u);
  EXPECT_THAT(cluster.Job().faults(0).action(), testing::HasSubstr("a peer's memory"));
}

// As after an absence of the controller: the agents report in any order what happened meanwhile.
TEST(ControllerPeers, ASnapshotThatIsReportedAfterTheFaultReplacesOlderOnes) {
  Cluster cluster = RunningWithPeers();
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  cluster.Copy("node-1", 10, "node-2");
  cluster.Copy("node-2", 10, "node-1");
  cluster.Disconnect("node-2");
  cluster.Exit("node-1", 0, -1, 9);
  cluster.Seal("node-2", 12);
  cluster.Seal("node-2", 14);
  cluster.Join("node-2");  // the same agent, after its events
  cluster.Start();
  ASSERT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 10u);
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), proto::Restore::TIER_PEER)
      << "its own memory has 12 and 14 in place of 10";
  EXPECT_EQ(cluster.RestoreOf("node-1").tier(), proto::Restore::TIER_MEMORY);
}

TEST(ControllerPeers, CopiesGoWithTheirKeepersMemory) {
  Cluster cluster = RunningWithPeers();
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  cluster.Copy("node-2", 10, "node-1");
  // The keeper is lost first and comes back empty; then the one whose copies it had.
  LoseAndReturn(cluster, "node-1");
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), proto::Restore::TIER_NONE) << "node 1 had no copy";
  Cluster other = RunningWithPeers();
  other.Steps(1, 10);
  other.SealAll(10);
  other.Copy("node-1", 10, "node-2");
  other.Copy("node-2", 10, "node-1");
  LoseAndReturn(other, "node-1");
  ASSERT_EQ(other.RestoreOf("node-1").tier(), proto::Restore::TIER_PEER);
  LoseAndReturn(other, "node-2");
  EXPECT_EQ(other.RestoreOf("node-2").tier(), proto::Restore::TIER_NONE)
      << "its copy died with the first life of node 1";
}

TEST(ControllerPeers, ABadCopyIsNotOfferedAgain) {
  Cluster cluster = RunningWithPeers();
  cluster.Steps(1, 10);
  cluster.SealAll(8);
  cluster.SealAll(10);
  for (const uint64_t step : {8u, 10u}) {
    cluster.Copy("node-1", step, "node-2");
    cluster.Copy("node-2", step, "node-1");
  }
  LoseAndReturn(cluster, "node-2");
  ASSERT_EQ(cluster.RestoreOf("node-2").step(), 10u);
  const uint64_t attempt = cluster.Job().attempt();
  cluster.CopyFails("node-2", 10);
  cluster.Exit("node-2", 2, 75, 0);
  cluster.TickUntil(cluster.now + seconds(2));
  ASSERT_GT(cluster.Job().attempt(), attempt);
  cluster.Start();
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 8u);
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), proto::Restore::TIER_PEER);
  EXPECT_EQ(cluster.RestoreOf("node-1").step(), 8u) << "all ranks the same step";
}

TEST(ControllerPeers, ReplicatedStateComesFromAnyOtherNodesOwn) {
  Cluster cluster = RunningWithPeers(true);
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  LoseAndReturn(cluster, "node-2");
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), proto::Restore::TIER_PEER);
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 10u);
  EXPECT_EQ(cluster.RestoreOf("node-2").source_rank(), 0u);
}

}  // namespace
}  // namespace longhaul::runtime
