#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/agent/agent_core.h"
#include "runtime/agent/agent_core_fixture.h"

namespace longhaul::runtime::agent_snapshots_test {
namespace {

AgentHarness Connect(AgentHarness agent = {}) {
  agent.Step(Connected{0});
  agent.TakeSent();
  return agent;
}

proto::Command CommitCommand(uint64_t attempt, uint64_t step) {
  proto::Command command;
  command.mutable_commit_snapshot()->set_job_id(kTestJob.value());
  command.mutable_commit_snapshot()->set_attempt(attempt);
  command.mutable_commit_snapshot()->set_step(step);
  return command;
}

PiecesPersisted Persisted(uint64_t attempt, uint64_t step, std::string error = "") {
  return {kTestJob, attempt, step, {}, Duration(1), std::move(error), false};
}

TEST(AgentCoreSnapshot, ASealIsPersistedAndALaterOneOvertakesTheQueue) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Seal(1, 10);
  ASSERT_EQ(Only<PersistPieces>(agent.last_effects()).size(), 1u);
  EXPECT_EQ(Only<PersistPieces>(agent.last_effects())[0].ranks, std::vector<uint32_t>{0});
  agent.Seal(1, 20);
  EXPECT_TRUE(Only<PersistPieces>(agent.last_effects()).empty()) << "one at a time";
  agent.Seal(1, 30);
  const auto next = Only<PersistPieces>(agent.Step(Persisted(1, 10)));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].step, 30u) << "20 is not queued";
}

TEST(AgentCoreSnapshot, ReplicatedStateIsPersistedByRankZerosNodeAlone) {
  AgentHarness agent = Connect();
  agent.Start(1, 2, 2);
  agent.Step(WorkerSealed{WorkerOf(1, 2), 10, Duration(5), 10, agent.now()});
  const auto effects = agent.Step(WorkerSealed{WorkerOf(1, 3), 10, Duration(5), 10, agent.now()});
  EXPECT_TRUE(Only<PersistPieces>(effects).empty());
  EXPECT_EQ(Kinds(agent.TakeSent()), "workers_started snapshot_sealed");
}

TEST(AgentCoreSnapshot, ShardedStateIsPersistedByEachNode) {
  AgentHarness agent = Connect();
  proto::Command start = StartCommand(1, 2, 2);
  start.mutable_start_workers()->mutable_job()->mutable_snapshot()->set_replicated(false);
  agent.Give(start);
  agent.Fork(1, 2, 2);
  agent.Step(WorkerSealed{WorkerOf(1, 2), 10, Duration(5), 10, agent.now()});
  const auto persists = Only<PersistPieces>(
      agent.Step(WorkerSealed{WorkerOf(1, 3), 10, Duration(5), 10, agent.now()}));
  ASSERT_EQ(persists.size(), 1u);
  EXPECT_EQ(persists[0].ranks, (std::vector<uint32_t>{2, 3}));
}

TEST(AgentCoreSnapshot, AFailureIsReportedAndTriedOnceMoreWhenTheWorkersHaveEnded) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Seal(1, 10);
  agent.TakeSent();
  EXPECT_TRUE(Only<PersistPieces>(agent.Step(Persisted(1, 10, "disk full"))).empty());
  const std::vector<proto::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "snapshot_failed");
  EXPECT_FALSE(sent[0].snapshot_failed().while_restoring());
  agent.End(1, 0);
  EXPECT_EQ(Only<PersistPieces>(agent.End(1, 1)).size(), 1u);
  EXPECT_FALSE(agent.core().Idle()) << "the write is under way";
}

TEST(AgentCoreSnapshot, AnOvertakenReadIsNoFailure) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Seal(1, 10);
  agent.Seal(1, 20);
  agent.TakeSent();
  EXPECT_EQ(Only<PersistPieces>(agent.Step(Persisted(1, 10, "slot reused"))).size(), 1u);
  EXPECT_EQ(Kinds(agent.TakeSent()), "");
}

TEST(AgentCoreSnapshot, ARollbackDropsWhatWasSealedBeyondIt) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Seal(1, 10);
  agent.Seal(1, 20);
  proto::Command start = StartCommand(2);
  start.mutable_start_workers()->mutable_restore()->set_step(10);
  agent.Give(start);
  EXPECT_TRUE(Only<PersistPieces>(agent.Step(Persisted(1, 10))).empty());
}

TEST(AgentCoreSnapshot, AGrantWritesTheManifestOnce) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Seal(1, 10);
  agent.Step(Persisted(1, 10));
  EXPECT_FALSE(agent.core().Settled());
  const auto writes = Only<WriteManifest>(agent.Give(CommitCommand(1, 10)));
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].current_attempt, 1u);
  EXPECT_TRUE(agent.Give(CommitCommand(1, 10)).empty()) << "under way";
  agent.TakeSent();
  agent.Step(ManifestWritten{kTestJob, 1, 10, ""});
  EXPECT_EQ(Kinds(agent.TakeSent()), "snapshot_committed");
  EXPECT_TRUE(agent.Give(CommitCommand(1, 10)).empty()) << "done";
}

// The last checkpoints of a run come close together: none of their grants may be lost.
TEST(AgentCoreSnapshot, AGrantWaitsForTheManifestUnderWay) {
  AgentHarness agent = Connect();
  agent.Start(1);
  ASSERT_EQ(Only<WriteManifest>(agent.Give(CommitCommand(1, 10))).size(), 1u);
  EXPECT_TRUE(agent.Give(CommitCommand(1, 20)).empty());
  EXPECT_TRUE(agent.Give(CommitCommand(1, 30)).empty());
  EXPECT_TRUE(agent.Give(CommitCommand(1, 20)).empty()) << "older than the one that waits";
  const auto writes = Only<WriteManifest>(agent.Step(ManifestWritten{kTestJob, 1, 10, ""}));
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].commit.step(), 30u);
  EXPECT_TRUE(Only<WriteManifest>(agent.Step(ManifestWritten{kTestJob, 1, 30, ""})).empty());
}

TEST(AgentCoreSnapshot, AGrantForAnOlderAttemptStillCounts) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Seal(1, 10);
  agent.End(1, 0);
  agent.End(1, 1);
  proto::Command start = StartCommand(2);
  start.mutable_start_workers()->mutable_restore()->set_step(10);
  start.mutable_start_workers()->mutable_restore()->set_tier(proto::Restore::TIER_DISK);
  agent.Give(start);
  agent.Step(Persisted(1, 10));
  const auto writes = Only<WriteManifest>(agent.Give(CommitCommand(1, 10)));
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].current_attempt, 2u);
  EXPECT_EQ(writes[0].protected_steps, std::vector<uint64_t>{10});
}

// The step would be the newest on disk, although the job computes it again.
TEST(AgentCoreSnapshot, AGrantForAStepBeforeWhichTheJobHasGoneBackIsRefused) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Seal(1, 10);
  agent.Seal(1, 20);
  agent.End(1, 0);
  agent.End(1, 1);
  proto::Command start = StartCommand(2);
  start.mutable_start_workers()->mutable_restore()->set_step(10);
  agent.Give(start);
  agent.TakeSent();
  EXPECT_TRUE(Only<WriteManifest>(agent.Give(CommitCommand(1, 20))).empty());
  const auto sent = agent.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].snapshot_failed().step(), 20u);
  EXPECT_EQ(sent[0].snapshot_failed().reason(), "the job has gone back to an earlier step");
}

TEST(AgentCoreSnapshot, TheCheckpointThatTheControllerKnowsSurvivesTheNextOne) {
  AgentHarness agent = Connect();
  agent.Start(1);
  proto::Command grant = CommitCommand(1, 20);
  grant.mutable_commit_snapshot()->set_committed_step(10);
  const auto writes = Only<WriteManifest>(agent.Give(grant));
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].protected_steps, std::vector<uint64_t>{10});
}

TEST(AgentCoreSnapshot, AGrantForAJobOfAnEarlierLifeIsRefusedAloud) {
  AgentHarness agent = Connect();
  EXPECT_TRUE(Only<WriteManifest>(agent.Give(CommitCommand(1, 10))).empty());
  EXPECT_EQ(Kinds(agent.TakeSent()), "snapshot_failed");
}

proto::Command StartWithPeer(uint64_t attempt, const std::string& peer) {
  proto::Command command = StartCommand(attempt);
  proto::StartWorkers& start = *command.mutable_start_workers();
  start.mutable_job()->mutable_snapshot()->set_replicated(false);
  start.set_peer_node(peer);
  start.set_peer_address("10.0.0.2");
  start.set_peer_port(4000);
  return command;
}

CopiesSent Copied(uint64_t attempt, uint64_t step, const std::string& holder,
                  const std::string& error = "") {
  return {kTestJob, attempt, step, holder, Duration(5), error};
}

// The gang has another size: what this node sealed belongs to the ranks and the world it had then.
TEST(AgentCoreSnapshot, WhatWasSealedKeepsTheRanksItWasSealedUnder) {
  AgentHarness agent = Connect();
  const auto start = [](uint64_t attempt, uint32_t first_rank, uint32_t world) {
    proto::Command command = StartCommand(attempt, 2, first_rank);
    command.mutable_start_workers()->mutable_job()->mutable_snapshot()->set_replicated(false);
    command.mutable_start_workers()->set_world(world);
    command.mutable_start_workers()->mutable_restore()->set_step(10);
    command.mutable_start_workers()->set_peer_node("node-2");
    command.mutable_start_workers()->set_peer_port(9);
    return command;
  };
  agent.Give(start(1, 2, 4));
  agent.Fork(1, 2, 2);
  agent.Step(WorkerSealed{WorkerOf(1, 2), 10, Duration(5), 10, agent.now()});
  agent.Step(WorkerSealed{WorkerOf(1, 3), 10, Duration(5), 10, agent.now()});
  agent.Step(Persisted(1, 10, "disk full"));
  agent.Step(Copied(1, 10, "node-2"));
  agent.Give(KillCommand(1));
  agent.End(1, 2);
  const auto persists = Only<PersistPieces>(agent.End(1, 3));
  ASSERT_EQ(persists.size(), 1u) << "tried once more";
  EXPECT_EQ(persists[0].ranks, (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(persists[0].start->world(), 4u);
  EXPECT_TRUE(Only<SendCopies>(agent.Give(start(2, 0, 2))).empty()) << "of other ranks";
  agent.Step(Persisted(1, 10, "disk full"));
  EXPECT_EQ(Only<SendCopies>(agent.Give(start(3, 2, 4))).size(), 1u) << "of the same again";
}

TEST(AgentCoreSnapshot, IsSentToThePeerOneAtATimeTheNewestNext) {
  AgentHarness agent = Connect();
  agent.Give(StartWithPeer(1, "node-2"));
  agent.Fork(1);
  agent.Seal(1, 10);
  const auto first = Only<SendCopies>(agent.last_effects());
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].step, 10u);
  EXPECT_EQ(first[0].ranks, (std::vector<uint32_t>{0, 1}));
  agent.Seal(1, 20);
  EXPECT_TRUE(Only<SendCopies>(agent.last_effects()).empty()) << "one is under way";
  agent.Seal(1, 30);
  agent.TakeSent();
  const auto next = Only<SendCopies>(agent.Step(Copied(1, 10, "node-2")));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].step, 30u);
  const auto sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "snapshot_replicated");
  EXPECT_EQ(sent[0].snapshot_replicated().step(), 10u);
  EXPECT_EQ(sent[0].snapshot_replicated().holder(), "node-2");
  EXPECT_TRUE(Only<SendCopies>(agent.Step(Copied(1, 30, "node-2"))).empty());
}

TEST(AgentCoreSnapshot, APeerThatTakesNothingIsReportedOnce) {
  AgentHarness agent = Connect();
  agent.Give(StartWithPeer(1, "node-2"));
  agent.Fork(1);
  agent.Seal(1, 10);
  agent.TakeSent();
  agent.Step(Copied(1, 10, "node-2", "no room"));
  EXPECT_EQ(Kinds(agent.TakeSent()), "snapshot_failed");
  agent.Seal(1, 20);
  EXPECT_EQ(Only<SendCopies>(agent.last_effects()).size(), 1u) << "it is tried again";
  agent.TakeSent();
  agent.Step(Copied(1, 20, "node-2", "no room"));
  EXPECT_EQ(Kinds(agent.TakeSent()), "");
}

TEST(AgentCoreSnapshot, ANewPeerGetsWhatThisNodeHoldsAtOnce) {
  AgentHarness agent = Connect();
  agent.Give(StartWithPeer(1, "node-2"));
  agent.Fork(1);
  agent.Seal(1, 10);
  agent.Step(Copied(1, 10, "node-2"));
  proto::Command again = StartWithPeer(2, "node-3");
  again.mutable_start_workers()->mutable_restore()->set_step(10);
  again.mutable_start_workers()->mutable_restore()->set_tier(proto::Restore::TIER_MEMORY);
  const auto copies = Only<SendCopies>(agent.Give(again));
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].step, 10u);
  EXPECT_EQ(copies[0].attempt, 1u);
  EXPECT_EQ(copies[0].start->peer_node(), "node-3");
}

TEST(AgentCoreSnapshot, ReplicatedStateAndNodesAloneSendNoCopies) {
  AgentHarness agent = Connect();
  proto::Command replicated = StartWithPeer(1, "node-2");
  replicated.mutable_start_workers()->mutable_job()->mutable_snapshot()->set_replicated(true);
  agent.Give(replicated);
  agent.Fork(1);
  agent.Seal(1, 10);
  EXPECT_TRUE(Only<SendCopies>(agent.last_effects()).empty());
  proto::Command alone = StartWithPeer(2, "");
  alone.mutable_start_workers()->set_peer_port(0);
  alone.mutable_start_workers()->mutable_restore()->set_step(10);
  EXPECT_TRUE(Only<SendCopies>(agent.Give(alone)).empty());
}

TEST(AgentCoreSnapshot, TheIntervalIsPassedOnOnce) {
  AgentHarness agent = Connect();
  agent.Start(2);
  proto::Command command;
  proto::SetSnapshotInterval& interval = *command.mutable_set_snapshot_interval();
  interval.set_job_id(kTestJob.value());
  interval.set_attempt(2);
  interval.set_steps(30);
  EXPECT_EQ(Only<SendInterval>(agent.Give(command)).size(), 1u);
  EXPECT_TRUE(agent.Give(command).empty());
  interval.set_attempt(1);
  EXPECT_TRUE(agent.Give(command).empty());
}

TEST(AgentCoreSnapshot, ANonFiniteOneIsReportedAndGoesNowhere) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Step(WorkerSealed{WorkerOf(1, 0), 10, Duration(5), 10, agent.now(), true});
  agent.TakeSent();
  const auto effects =
      agent.Step(WorkerSealed{WorkerOf(1, 1), 10, Duration(5), 10, agent.now(), false});
  EXPECT_TRUE(Only<PersistPieces>(effects).empty());
  const auto sent = agent.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(sent[0].snapshot_sealed().non_finite()) << "one bad rank is enough";
  agent.Seal(1, 20);
  EXPECT_EQ(Only<PersistPieces>(agent.last_effects()).size(), 1u);
}

// An agent whose node's memory holds step 10 of both ranks and a copy for another node.
AgentCore Adopter() {
  AgentFacts facts{2, 2, 1 << 30, "127.0.0.1", "host"};
  for (const uint32_t rank : {0u, 1u}) facts.held.push_back({kTestJob, rank, 10, 3, false});
  facts.held.push_back({JobId("other"), 2, 10, 3, true});
  return {NodeId("node-1"), 7, facts};
}

TEST(AgentCoreAdoption, TellsWhatItHoldsUntilTheJobIsHeardOf) {
  AgentCore core = Adopter();
  const auto joined = [&core] {
    const auto sent = Only<Send>(core.Step(Connected{}, Instant{}));
    return sent.back().message.event().agent_joined();
  };
  ASSERT_EQ(joined().held_size(), 3);
  EXPECT_EQ(joined().held(1).rank(), 1u);
  EXPECT_EQ(joined().held(1).attempt(), 3u);
  EXPECT_TRUE(joined().held(2).copy());
  core.Step(CommandReceived{StartCommand(4)}, Instant{});
  EXPECT_EQ(joined().held_size(), 1);
  proto::Command forget;
  forget.mutable_forget_job()->set_job_id("other");
  const auto dropped = Only<DropJob>(core.Step(CommandReceived{forget}, Instant{}));
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0].job, JobId("other"));
  EXPECT_EQ(joined().held_size(), 0);
}

TEST(AgentCoreCopies, AreReportedOnceAllRanksOfTheOtherNodeHaveOne) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.TakeSent();
  agent.Step(CopyReceived{kTestJob, 3, 1, 10});
  EXPECT_EQ(Kinds(agent.TakeSent()), "");
  agent.Step(CopyReceived{kTestJob, 2, 1, 10});
  const std::vector<proto::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "copy_received");
  EXPECT_EQ(sent[0].copy_received().first_rank(), 2u);
  EXPECT_EQ(sent[0].copy_received().ranks(), 2u);
  EXPECT_EQ(sent[0].copy_received().attempt(), 1u);
  EXPECT_EQ(sent[0].copy_received().step(), 10u);
  agent.Step(CopyReceived{kTestJob, 2, 1, 10});
  EXPECT_EQ(Kinds(agent.TakeSent()), "") << "sent again";
}

TEST(AgentCoreCopies, TheNewestTwoAreListedUntilTheJobIsForgotten) {
  AgentHarness agent = Connect();
  agent.Start(1);
  for (const uint64_t step : {30u, 10u, 20u}) agent.Step(CopyReceived{kTestJob, 2, 1, step});
  agent.TakeSent();
  const auto joined = [&agent] {
    agent.Step(Disconnected{});
    agent.Step(Connected{});
    return agent.TakeSent().back().agent_joined();
  };
  const proto::AgentJoined first = joined();
  ASSERT_EQ(first.held_size(), 2);
  EXPECT_TRUE(first.held(0).copy());
  EXPECT_EQ(first.held(0).step(), 30u);
  EXPECT_EQ(first.held(1).step(), 20u);
  proto::Command forget;
  forget.mutable_forget_job()->set_job_id(kTestJob.value());
  agent.Give(forget);
  agent.End(1, 0);
  agent.End(1, 1);
  EXPECT_EQ(joined().held_size(), 0);
  agent.Step(CopyReceived{kTestJob, 2, 1, 40});
  EXPECT_EQ(joined().held_size(), 0) << "it came after its job had ended";
}

TEST(AgentCoreSnapshot, TheNewestTwoAreListedUnlessTheyWereNoGood) {
  AgentHarness agent = Connect();
  agent.Start(1, 2, 2);
  for (const uint64_t step : {10u, 20u, 30u}) {
    for (const uint32_t rank : {2u, 3u}) {
      agent.Step(WorkerSealed{WorkerOf(1, rank), step, Duration(5), 10, agent.now()});
    }
  }
  agent.Step(WorkerRestoreFailed{WorkerOf(1, 2), 20, proto::Restore::TIER_MEMORY, "hash"});
  agent.TakeSent();
  agent.Step(Disconnected{});
  agent.Step(Connected{});
  const proto::AgentJoined joined = agent.TakeSent().back().agent_joined();
  ASSERT_EQ(joined.held_size(), 4);
  EXPECT_EQ(joined.held(0).step(), 30u);
  EXPECT_EQ(joined.held(2).step(), 10u) << "20 is not good";
  EXPECT_EQ(joined.held(3).rank(), 1u) << "the name of the arena";
}

TEST(AgentCoreSnapshot, AreNotListedWhenAStateFromElsewhereMayHaveReplacedThem) {
  for (const auto tier : {proto::Restore::TIER_MEMORY, proto::Restore::TIER_PEER}) {
    AgentHarness agent = Connect();
    agent.Start(1);
    agent.Seal(1, 10);
    proto::Command start = StartCommand(2);
    start.mutable_start_workers()->mutable_restore()->set_tier(tier);
    start.mutable_start_workers()->mutable_restore()->set_step(12);
    agent.Give(start);
    agent.TakeSent();
    agent.Step(Disconnected{});
    agent.Step(Connected{});
    const int listed = agent.TakeSent().back().agent_joined().held_size();
    EXPECT_EQ(listed, tier == proto::Restore::TIER_MEMORY ? 2 : 0);
  }
}

// The void ones still have their slots of the arena: what was in them before is gone.
TEST(AgentCoreSnapshot, AreNotListedAfterARollbackThatLeavesNewerOnesInTheirPlace) {
  for (const uint64_t step : {10u, 12u}) {
    AgentHarness agent = Connect();
    agent.Start(1);
    agent.Seal(1, 10);
    agent.Seal(1, 12);
    proto::Command start = StartCommand(2);
    start.mutable_start_workers()->mutable_restore()->set_tier(proto::Restore::TIER_MEMORY);
    start.mutable_start_workers()->mutable_restore()->set_step(step);
    agent.Give(start);
    agent.TakeSent();
    agent.Step(Disconnected{});
    agent.Step(Connected{});
    const int listed = agent.TakeSent().back().agent_joined().held_size();
    EXPECT_EQ(listed, step == 12 ? 4 : 0) << "two steps of two ranks, or none";
  }
}

TEST(AgentCoreAdoption, PersistsWhatItsWorkersGoOnFrom) {
  AgentCore core = Adopter();
  proto::Command start = StartCommand(4);
  start.mutable_start_workers()->mutable_restore()->set_tier(proto::Restore::TIER_MEMORY);
  start.mutable_start_workers()->mutable_restore()->set_step(10);
  const auto persist = Only<PersistPieces>(core.Step(CommandReceived{start}, Instant{}));
  ASSERT_EQ(persist.size(), 1u);
  EXPECT_EQ(persist[0].step, 10u);
  EXPECT_EQ(persist[0].attempt, 3u) << "that sealed it";
  AgentCore other = Adopter();
  start.mutable_start_workers()->mutable_restore()->set_step(8);
  EXPECT_TRUE(Only<PersistPieces>(other.Step(CommandReceived{start}, Instant{})).empty());
}

}  // namespace
}  // namespace longhaul::runtime::agent_snapshots_test
