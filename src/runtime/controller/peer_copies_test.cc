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

// A copy of both ranks of a place, as its holder lists it.
void AddHeld(proto::AgentJoined& joined, uint32_t first_rank, uint64_t step, uint64_t attempt) {
  for (const uint32_t rank : {first_rank, first_rank + 1}) {
    proto::AgentJoined::HeldSnapshot& held = *joined.add_held();
    held.set_job_id("gpt-1");
    held.set_rank(rank);
    held.set_step(step);
    held.set_attempt(attempt);
    held.set_copy(true);
  }
}

// The agent has been without a connection, and lists its copies.
void Rejoin(Cluster& cluster, const std::string& node, proto::AgentJoined joined) {
  joined.set_slots(2);
  joined.set_address("127.0.0.1");
  joined.set_peer_port(cluster.peer_port);
  cluster.Disconnect(node);
  cluster.Report(node, &proto::Event::mutable_agent_joined, std::move(joined));
}

TEST(ControllerPeers, ACopyServesWhoseSenderIsLostBeforeItReports) {
  Cluster cluster = RunningWithPeers();
  cluster.Steps(1, 10);
  cluster.SealAll(10);
  cluster.Copy("node-1", 10, "node-2");
  cluster.Copy("node-2", 10, "node-1");
  // Node 2 has sealed 12 and sent the copy, and is lost with its reports.
  cluster.Seal("node-1", 12);
  cluster.Copy("node-2", 12, "node-1");
  LoseAndReturn(cluster, "node-2");
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 12u);
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), proto::Restore::TIER_PEER);
  EXPECT_EQ(cluster.RestoreOf("node-1").step(), 12u);
  EXPECT_EQ(cluster.RestoreOf("node-1").tier(), proto::Restore::TIER_MEMORY);
}

// The nodes have written the pieces of a step, of which none has a replica.
void Write(Cluster& cluster, uint64_t attempt, uint64_t step) {
  for (const uint32_t rank : {0u, 2u}) {
    proto::SnapshotPersisted persisted;
    persisted.set_job_id("gpt-1");
    persisted.set_attempt(attempt);
    persisted.set_step(step);
    for (const uint32_t each : {rank, rank + 1}) persisted.add_files()->set_rank(each);
    cluster.Report(rank == 0 ? "node-1" : "node-2", &proto::Event::mutable_snapshot_persisted,
                   persisted);
  }
}

void EndWell(Cluster& cluster) {
  for (const uint32_t rank : {0u, 1u, 2u, 3u}) {
    cluster.Exit(rank < 2 ? "node-1" : "node-2", rank, 0, 0);
  }
}

// A node is lost after the last step was sealed and before it is on disk. The new workers have no
// step to do. Before they end they seal the state, which is the job's result.
TEST(ControllerPeers, TheLastStateThatCameFromAPeerIsWrittenToDisk) {
  Cluster cluster = RunningWithPeers();
  cluster.Steps(1, 100);
  cluster.SealAll(100);
  cluster.Copy("node-1", 100, "node-2");
  cluster.Copy("node-2", 100, "node-1");
  LoseAndReturn(cluster, "node-2");
  ASSERT_EQ(cluster.Job().attempt(), 2u);
  ASSERT_EQ(cluster.RestoreOf("node-2").step(), 100u);
  ASSERT_EQ(cluster.RestoreOf("node-2").tier(), proto::Restore::TIER_PEER);
  cluster.SealAll(100);
  EndWell(cluster);
  EXPECT_NE(cluster.Job().state(), proto::FAILED) << cluster.Job().reason();
  for (const char* node : {"node-1", "node-2"}) {
    const auto order = cluster.Last(node, proto::Command::kPersistSnapshot).persist_snapshot();
    EXPECT_EQ(order.attempt(), 2u) << node;
    EXPECT_EQ(order.step(), 100u) << node;
  }
  Write(cluster, 2, 100);
  proto::SnapshotCommitted committed;
  committed.set_job_id("gpt-1");
  committed.set_attempt(2);
  committed.set_step(100);
  cluster.Report("node-2", &proto::Event::mutable_snapshot_committed, committed);
  EXPECT_EQ(cluster.Job().state(), proto::SUCCEEDED) << cluster.Job().reason();
}

// As above, after a worker's death: the seal of the first attempt is being written when the second
// one replaces it in memory.
TEST(ControllerPeers, AStateThatIsSealedAgainIsWrittenInPlaceOfTheEarlierSeal) {
  Cluster cluster = RunningWithPeers();
  cluster.Steps(1, 100);
  cluster.SealAll(100);
  cluster.Exit("node-1", 0, -1, 9);
  cluster.Start();
  ASSERT_EQ(cluster.RestoreOf("node-1").tier(), proto::Restore::TIER_MEMORY);
  ASSERT_EQ(cluster.Last("node-1", proto::Command::kPersistSnapshot).persist_snapshot().attempt(),
            1u);
  proto::SnapshotFailed failed;
  failed.set_job_id("gpt-1");
  failed.set_attempt(1);
  failed.set_step(100);
  failed.set_reason("newer snapshots have taken its place in memory");
  failed.set_tier(proto::Restore::TIER_DISK);
  failed.set_overtaken(true);
  cluster.Seal("node-1", 100);
  cluster.Report("node-1", &proto::Event::mutable_snapshot_failed, failed);
  cluster.Seal("node-2", 100);
  cluster.Report("node-2", &proto::Event::mutable_snapshot_failed, failed);
  EndWell(cluster);
  EXPECT_NE(cluster.Job().state(), proto::FAILED) << cluster.Job().reason();
  EXPECT_EQ(cluster.Last("node-1", proto::Command::kPersistSnapshot).persist_snapshot().attempt(),
            2u);
  Write(cluster, 2, 100);
  EXPECT_EQ(cluster.Last("node-2", proto::Command::kCommitSnapshot).commit_snapshot().attempt(),
            2u);
}

TEST(ControllerPeers, AHolderListsItsCopiesWhenItJoinsAgain) {
  Cluster cluster = RunningWithPeers();
  cluster.Steps(1, 12);
  cluster.SealAll(12);
  proto::AgentJoined joined;
  AddHeld(joined, 2, 12, 1);
  Rejoin(cluster, "node-1", joined);
  LoseAndReturn(cluster, "node-2");
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 12u);
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), proto::Restore::TIER_PEER);
}

// Node 2 was given up because it had no connection for a while, but it still has its memory.
TEST(ControllerPeers, ANodeThatWasGivenUpListsItsOwnSnapshotsWhenItReturns) {
  Cluster cluster = RunningWithPeers();
  cluster.Steps(1, 12);
  cluster.SealAll(12);
  cluster.Disconnect("node-2");
  cluster.TickUntil(cluster.now + seconds(2));
  proto::AgentJoined joined;
  AddHeld(joined, 2, 12, 1);
  for (auto& held : *joined.mutable_held()) held.set_copy(false);
  Rejoin(cluster, "node-2", joined);
  cluster.Start();
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 12u);
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), proto::Restore::TIER_MEMORY);
}

// The gang has gone on without node 2, which was cut off and has its old snapshots still.
TEST(ControllerPeers, ANodeThatWasReplacedWhileItWasCutOffReleasesItsMemory) {
  Cluster cluster = RunningWithPeers();
  cluster.Join("node-3");
  cluster.Steps(1, 12);
  cluster.SealAll(10);
  cluster.Copy("node-2", 10, "node-1");
  cluster.Disconnect("node-2");
  cluster.TickUntil(cluster.now + seconds(2));
  cluster.gang = {"node-1", "node-3"};
  cluster.Start();
  ASSERT_EQ(cluster.RestoreOf("node-3").step(), 10u);
  cluster.Steps(11, 13);
  proto::AgentJoined joined;
  AddHeld(joined, 2, 12, 1);
  for (auto& held : *joined.mutable_held()) held.set_copy(false);
  Rejoin(cluster, "node-2", joined);
  const auto forget = cluster.Last("node-2", proto::Command::kForgetJob).forget_job();
  EXPECT_EQ(forget.job_id(), "gpt-1");
  EXPECT_EQ(forget.attempt(), 2u) << "a later attempt may use the node again";
}

// Attempt 2 has begun from step 10, so 14 of attempt 1 is void. But it has replaced 8 in the
// holder's memory.
TEST(ControllerPeers, AVoidCopyThatIsReportedLateReplacesAnOlderOne) {
  Cluster cluster = RunningWithPeers();
  cluster.Steps(1, 10);
  for (const uint64_t step : {8u, 10u}) {
    cluster.SealAll(step);
    cluster.Copy("node-2", step, "node-1");
  }
  cluster.Exit("node-1", 0, -1, 9);
  cluster.Start();
  ASSERT_EQ(cluster.RestoreOf("node-2").step(), 10u);
  proto::CopyReceived late;
  late.set_job_id("gpt-1");
  late.set_attempt(1);
  late.set_step(14);
  late.set_first_rank(2);
  late.set_ranks(2);
  cluster.Report("node-1", &proto::Event::mutable_copy_received, late);
  LoseAndReturn(cluster, "node-2");
  ASSERT_EQ(cluster.RestoreOf("node-2").step(), 10u);
  cluster.CopyFails("node-2", 10);
  cluster.TickUntil(cluster.now + seconds(2));
  cluster.Start();
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), proto::Restore::TIER_NONE)
      << "8 is not there: " << cluster.RestoreOf("node-2").DebugString();
}

TEST(ControllerPeers, ABadCopyIsNotOfferedAgainWhenItsHolderListsIt) {
  Cluster cluster = RunningWithPeers();
  cluster.Steps(1, 10);
  for (const uint64_t step : {8u, 10u}) {
    cluster.SealAll(step);
    cluster.Copy("node-2", step, "node-1");
  }
  LoseAndReturn(cluster, "node-2");
  ASSERT_EQ(cluster.RestoreOf("node-2").step(), 10u);
  cluster.CopyFails("node-2", 10);
  proto::AgentJoined joined;
  AddHeld(joined, 2, 8, 1);
  AddHeld(joined, 2, 10, 1);
  Rejoin(cluster, "node-1", joined);
  LoseAndReturn(cluster, "node-2");
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 8u);
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
