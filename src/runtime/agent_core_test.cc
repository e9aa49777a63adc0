#include "runtime/agent_core.h"

#include <gtest/gtest.h>

#include <csignal>

#include "runtime/agent_core_fixture.h"

namespace longhaul::runtime {
namespace {

using std::chrono::seconds;

AgentHarness Connect(AgentHarness agent = {}) {
  agent.Step(Connected{0});
  agent.TakeSent();
  return agent;
}

wire::Command StoreCommand(uint64_t epoch) {
  wire::Command command;
  command.mutable_open_store()->set_job_id(kTestJob.value());
  command.mutable_open_store()->set_epoch(epoch);
  command.mutable_open_store()->set_world(4);
  return command;
}

wire::Command FaultCommand(wire::PlannedFault::Kind kind, uint64_t epoch, uint32_t target) {
  wire::Command command;
  wire::InjectFault& inject = *command.mutable_inject_fault();
  inject.set_job_id(kTestJob.value());
  inject.set_epoch(epoch);
  inject.mutable_fault()->set_kind(kind);
  inject.mutable_fault()->set_target(target);
  inject.mutable_fault()->set_step(40);
  inject.mutable_fault()->set_duration_ns(Duration(seconds(20)).count());
  return command;
}

wire::Command CommitCommand(uint64_t epoch, uint64_t step) {
  wire::Command command;
  command.mutable_commit_snapshot()->set_job_id(kTestJob.value());
  command.mutable_commit_snapshot()->set_epoch(epoch);
  command.mutable_commit_snapshot()->set_step(step);
  return command;
}

wire::Command ForgetCommand() {
  wire::Command command;
  command.mutable_forget_job()->set_job_id(kTestJob.value());
  return command;
}

PiecesPersisted Persisted(uint64_t epoch, uint64_t step, std::string error = "") {
  return {kTestJob, epoch, step, {}, Duration(1), std::move(error), false};
}

// -- the link

TEST(AgentCoreLink, TellsThePresentWhenItJoins) {
  AgentHarness agent;
  agent.Start(1);
  agent.End(1, 1);
  agent.Step(Connected{0});
  const std::vector<wire::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "workers_started worker_exited agent_joined");
  const wire::AgentJoined& joined = sent.back().agent_joined();
  EXPECT_EQ(joined.slots(), 2u);
  ASSERT_EQ(joined.running_size(), 1);
  EXPECT_EQ(joined.running(0).epoch(), 1u);
  ASSERT_EQ(joined.running(0).ranks_size(), 1);
  EXPECT_EQ(joined.running(0).ranks(0), 0u);
}

TEST(AgentCoreLink, CountsAStartThatWaitsAsRunning) {
  AgentHarness agent;
  agent.Start(1);
  agent.Give(StartCommand(2));
  agent.Step(Connected{0});
  EXPECT_EQ(agent.TakeSent().back().agent_joined().running_size(), 2);
}

TEST(AgentCoreLink, ResendsWhatIsNotLoggedThenJoinsAgain) {
  AgentHarness agent = Connect();  // agent_joined is 1
  agent.Start(1);                  // workers_started is 2
  agent.Step(EventsAcknowledged{1});
  agent.Step(Disconnected{});
  agent.End(1, 0);  // 3
  EXPECT_EQ(Kinds(agent.TakeSent()), "workers_started") << "nothing is sent without a stream";
  agent.Step(Connected{2});
  const std::vector<wire::Event> sent = agent.TakeSent();
  EXPECT_EQ(Kinds(sent), "worker_exited agent_joined");
  EXPECT_EQ(sent.front().sequence(), 3u);
  EXPECT_EQ(sent.back().sequence(), 4u);
  EXPECT_EQ(sent.back().incarnation(), 7u);
  EXPECT_EQ(sent.back().node(), "node-1");
}

// -- stores

TEST(AgentCoreStore, OpensAFreshOneAndClosesThoseBelow) {
  AgentHarness agent = Connect();
  const auto effects = agent.Give(StoreCommand(2));
  ASSERT_EQ(Only<OpenStoreAt>(effects).size(), 1u);
  EXPECT_EQ(Only<OpenStoreAt>(effects)[0].epoch, 2u);
  EXPECT_EQ(Only<CloseStores>(effects)[0].below_epoch, 2u);
  agent.Step(StoreListening{kTestJob, 2, 4711, ""});
  EXPECT_EQ(agent.TakeSent().back().store_opened().port(), 4711u);
}

TEST(AgentCoreStore, IgnoresRepetitionsAndLowerEpochs) {
  AgentHarness agent = Connect();
  agent.Give(StoreCommand(2));
  EXPECT_TRUE(agent.Give(StoreCommand(2)).empty());
  EXPECT_TRUE(agent.Give(StoreCommand(1)).empty());
}

TEST(AgentCoreStore, AFailureIsAFailedStart) {
  AgentHarness agent = Connect();
  agent.Give(StoreCommand(1));
  agent.Step(StoreListening{kTestJob, 1, 0, "no such address"});
  const std::vector<wire::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "workers_failed_to_start");
  EXPECT_NE(sent[0].workers_failed_to_start().reason().find("no such address"), std::string::npos);
}

// -- starting

TEST(AgentCoreStart, SpawnsEachLocalRankAndTellsOnceAllHaveAProcess) {
  AgentHarness agent = Connect();
  const auto effects = agent.Give(StartCommand(1, 2, 2));
  const auto spawns = Only<SpawnWorker>(effects);
  ASSERT_EQ(spawns.size(), 2u);
  EXPECT_EQ(spawns[0].worker, WorkerOf(1, 2));
  EXPECT_EQ(spawns[1].worker, WorkerOf(1, 3));
  agent.Step(WorkerForked{WorkerOf(1, 3), 103, "", false});
  EXPECT_EQ(Kinds(agent.TakeSent()), "");
  agent.Step(WorkerForked{WorkerOf(1, 2), 102, "", false});
  const std::vector<wire::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "workers_started");
  EXPECT_EQ(sent[0].workers_started().pids(0), 102);
  EXPECT_EQ(sent[0].workers_started().pids(1), 103);
}

TEST(AgentCoreStart, IgnoresRepetitionsAndLowerEpochs) {
  AgentHarness agent = Connect();
  agent.Start(2);
  EXPECT_TRUE(agent.Give(StartCommand(2)).empty());
  EXPECT_TRUE(agent.Give(StartCommand(1)).empty());
  agent.End(2, 0);
  agent.End(2, 1);
  EXPECT_TRUE(agent.Give(StartCommand(2)).empty()) << "an epoch never starts twice";
}

TEST(AgentCoreStart, WaitsUntilLowerEpochsAreReaped) {
  AgentHarness agent = Connect();
  agent.Start(1);
  const auto effects = agent.Give(StartCommand(2));
  EXPECT_TRUE(Only<SpawnWorker>(effects).empty());
  const auto signals = Only<SignalWorker>(effects);
  ASSERT_EQ(signals.size(), 2u);
  EXPECT_EQ(signals[0].signal, SIGKILL);
  EXPECT_TRUE(Only<SpawnWorker>(agent.End(1, 0)).empty());
  EXPECT_EQ(Only<SpawnWorker>(agent.End(1, 1)).size(), 2u);
  const std::vector<wire::Event> sent = agent.TakeSent();
  EXPECT_EQ(Kinds(sent), "workers_started worker_exited worker_exited epoch_closed");
  EXPECT_TRUE(sent[1].worker_exited().asked());
}

TEST(AgentCoreStart, OnlyTheHighestOfWaitingEpochsStarts) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Give(StartCommand(2));
  agent.Give(StartCommand(3));
  agent.End(1, 0);
  const auto spawns = Only<SpawnWorker>(agent.End(1, 1));
  ASSERT_EQ(spawns.size(), 2u);
  EXPECT_EQ(spawns[0].worker.epoch, 3u);
}

TEST(AgentCoreStart, AFailureEndsTheOthersAndIsToldOnce) {
  AgentHarness agent = Connect();
  agent.Give(StartCommand(1));
  agent.Step(WorkerForked{WorkerOf(1, 0), 100, "", false});
  const auto effects = agent.Step(WorkerForked{WorkerOf(1, 1), 0, "no such program", true});
  EXPECT_EQ(Only<SignalWorker>(effects).size(), 1u);
  agent.End(1, 0);
  const std::vector<wire::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "workers_failed_to_start worker_exited epoch_closed");
  EXPECT_TRUE(sent[0].workers_failed_to_start().permanent());
  EXPECT_TRUE(sent[1].worker_exited().asked());
}

TEST(AgentCoreStart, TheFailureOfTheOnlyWorkerIsToldToo) {
  AgentHarness agent = Connect();
  agent.Give(StartCommand(1, 1));
  agent.Step(WorkerForked{WorkerOf(1, 0), 0, "no such program", true});
  EXPECT_EQ(Kinds(agent.TakeSent()), "workers_failed_to_start epoch_closed");
}

TEST(AgentCoreStart, RefusesMoreWorkersThanSlots) {
  AgentHarness agent = Connect();
  const auto effects = agent.Give(StartCommand(1, 3));
  EXPECT_TRUE(Only<SpawnWorker>(effects).empty());
  const std::vector<wire::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "workers_failed_to_start epoch_closed");
  EXPECT_EQ(sent[0].workers_failed_to_start().reason(), "3 workers for 2 slots");
}

TEST(AgentCoreStart, AProcessThatComesAfterItsEpochWasKilledIsKilled) {
  AgentHarness agent = Connect();
  agent.Give(StartCommand(1, 1));
  EXPECT_TRUE(Only<SignalWorker>(agent.Give(KillCommand(1))).empty()) << "no process yet";
  const auto effects = agent.Step(WorkerForked{WorkerOf(1, 0), 100, "", false});
  ASSERT_EQ(Only<SignalWorker>(effects).size(), 1u);
  EXPECT_EQ(Only<SignalWorker>(effects)[0].signal, SIGKILL);
  agent.End(1, 0);
  EXPECT_EQ(Kinds(agent.TakeSent()), "worker_exited epoch_closed");
}

// -- ending

TEST(AgentCoreEnd, AWorkerThatDiesByItselfWasNotAsked) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.TakeSent();
  agent.Step(WorkerGone{WorkerOf(1, 1), 3, 0, "ValueError: bad", 5});
  const std::vector<wire::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "worker_exited");
  EXPECT_EQ(sent[0].worker_exited().exit_code(), 3);
  EXPECT_EQ(sent[0].worker_exited().message(), "ValueError: bad");
  EXPECT_EQ(sent[0].worker_exited().error_at_ns(), 5);
  EXPECT_FALSE(sent[0].worker_exited().asked());
  EXPECT_TRUE(agent.End(1, 1).empty()) << "twice";
}

TEST(AgentCoreEnd, KillWithGraceTerminatesFirstAndKillsAtItsEnd) {
  AgentHarness agent = Connect();
  agent.Start(1);
  const auto signals = Only<SignalWorker>(agent.Give(KillCommand(1, seconds(3))));
  ASSERT_EQ(signals.size(), 4u);
  EXPECT_EQ(signals[0].signal, SIGTERM);
  EXPECT_EQ(signals[1].signal, SIGCONT) << "a stopped worker must hear it";
  ASSERT_TRUE(agent.core().NextDeadline().has_value());
  EXPECT_EQ(*agent.core().NextDeadline(), agent.now() + seconds(3));
  EXPECT_TRUE(agent.Give(KillCommand(1, seconds(3))).empty()) << "a repetition does nothing";
  agent.End(1, 0, SIGTERM);
  agent.Advance(seconds(3));
  const auto last = Only<SignalWorker>(agent.Step(TimerFired{}));
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].worker.rank, 1u);
  EXPECT_EQ(last[0].signal, SIGKILL);
  EXPECT_FALSE(agent.core().NextDeadline().has_value());
}

TEST(AgentCoreEnd, KillWithoutGraceOvertakesGrace) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Give(KillCommand(1, seconds(3)));
  const auto signals = Only<SignalWorker>(agent.Give(KillCommand(1)));
  ASSERT_EQ(signals.size(), 2u);
  EXPECT_EQ(signals[0].signal, SIGKILL);
}

TEST(AgentCoreEnd, KillOfALowerEpochLeavesTheHigherAlone) {
  AgentHarness agent = Connect();
  agent.Start(2);
  EXPECT_TRUE(Only<SignalWorker>(agent.Give(KillCommand(1))).empty());
}

TEST(AgentCoreEnd, KillOfAnEpochWithoutWorkersIsAnsweredOnce) {
  AgentHarness agent = Connect();
  agent.Give(KillCommand(3));
  const std::vector<wire::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "epoch_closed");
  EXPECT_EQ(sent[0].epoch_closed().epoch(), 3u);
  agent.Give(KillCommand(3));
  EXPECT_EQ(Kinds(agent.TakeSent()), "");
  EXPECT_TRUE(agent.Give(StartCommand(3)).empty()) << "it was to end before it began";
}

TEST(AgentCoreEnd, KillOfAWaitingStartMeansItNeverStarts) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Give(StartCommand(2));
  agent.Give(KillCommand(2));
  agent.End(1, 0);
  EXPECT_TRUE(Only<SpawnWorker>(agent.End(1, 1)).empty());
  const std::vector<wire::Event> sent = agent.TakeSent();
  EXPECT_EQ(Kinds(sent), "workers_started worker_exited worker_exited epoch_closed epoch_closed");
  EXPECT_EQ(sent.back().epoch_closed().epoch(), 2u);
}

TEST(AgentCoreEnd, ShuttingDownEndsAllAndStartsNothing) {
  AgentHarness agent = Connect();
  agent.Start(1);
  EXPECT_EQ(Only<SignalWorker>(agent.Step(ShutDownAsked{seconds(3)})).size(), 4u);
  EXPECT_TRUE(agent.Give(StartCommand(2)).empty());
  EXPECT_FALSE(agent.core().Idle());
  agent.End(1, 0);
  agent.End(1, 1);
  EXPECT_TRUE(agent.core().Idle());
  EXPECT_FALSE(agent.core().Settled()) << "the controller doesn't know yet";
  agent.Step(EventsAcknowledged{99});
  EXPECT_TRUE(agent.core().Settled());
}

// -- fencing what workers say

TEST(AgentCoreFence, AnOvertakenEpochIsNotHeard) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Give(StartCommand(2));
  agent.TakeSent();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    WorkerStep step;
    step.worker = WorkerOf(1, rank);
    step.step = 1;
    agent.Step(step);
    agent.Step(WorkerPhase{WorkerOf(1, rank), wire::PhaseEntered::STEPPING, agent.now()});
  }
  agent.Seal(1, 1);
  EXPECT_EQ(Kinds(agent.TakeSent()), "");
}

TEST(AgentCoreFence, UnknownWorkersChangeNothing) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.TakeSent();
  agent.Step(WorkerPhase{WorkerOf(1, 9), wire::PhaseEntered::STEPPING, agent.now()});
  agent.Step(WorkerGone{WorkerOf(9, 0), 0, 0, "", 0});
  WorkerForked other;
  other.worker.job = JobId("other");
  agent.Step(other);
  agent.Step(WorkerResultText{WorkerOf(1, 7), "{}"});
  EXPECT_EQ(Kinds(agent.TakeSent()), "");
}

TEST(AgentCoreFence, ResultsAndFailedRestoresPass) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.TakeSent();
  agent.Step(WorkerResultText{WorkerOf(1, 0), "{}"});
  agent.Step(WorkerRestoreFailed{WorkerOf(1, 1), 36, wire::Restore::TIER_MEMORY, "chunk 3"});
  const std::vector<wire::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "worker_result snapshot_failed");
  EXPECT_TRUE(sent[1].snapshot_failed().while_restoring());
  EXPECT_EQ(sent[1].snapshot_failed().rank(), 1u);
}

// Protobuf can't carry others: the stream would break, again and again.
TEST(AgentCoreFence, WordsOfWorkersAreMadeValidText) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.TakeSent();
  agent.Step(WorkerResultText{WorkerOf(1, 0), "{\"a\": \"\xFF\"}"});
  agent.Step(WorkerRestoreFailed{WorkerOf(1, 1), 36, wire::Restore::TIER_MEMORY, "\xC3"});
  agent.Step(WorkerGone{WorkerOf(1, 1), 3, 0, "bad \x80", 5});
  const std::vector<wire::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "worker_result snapshot_failed worker_exited");
  EXPECT_EQ(sent[0].worker_result().json(), "{\"a\": \"\uFFFD\"}");
  EXPECT_EQ(sent[1].snapshot_failed().reason(), "\uFFFD");
  EXPECT_EQ(sent[2].worker_exited().message(), "bad \uFFFD");
}

// -- snapshots

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
  wire::Command start = StartCommand(1, 2, 2);
  start.mutable_start_workers()->mutable_job()->mutable_snapshot()->set_replicated(false);
  agent.Give(start);
  agent.Fork(1, 2, 2);
  agent.Step(WorkerSealed{WorkerOf(1, 2), 10, Duration(5), 10, agent.now()});
  const auto persists = Only<PersistPieces>(
      agent.Step(WorkerSealed{WorkerOf(1, 3), 10, Duration(5), 10, agent.now()}));
  ASSERT_EQ(persists.size(), 1u);
  EXPECT_EQ(persists[0].ranks, (std::vector<uint32_t>{2, 3}));
}

TEST(AgentCoreSnapshot, AFailureIsToldAndTriedOnceMoreWhenTheWorkersHaveEnded) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Seal(1, 10);
  agent.TakeSent();
  EXPECT_TRUE(Only<PersistPieces>(agent.Step(Persisted(1, 10, "disk full"))).empty());
  const std::vector<wire::Event> sent = agent.TakeSent();
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
  wire::Command start = StartCommand(2);
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
  EXPECT_EQ(writes[0].current_epoch, 1u);
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

TEST(AgentCoreSnapshot, AGrantForAnOlderEpochStillCounts) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Seal(1, 10);
  agent.End(1, 0);
  agent.End(1, 1);
  wire::Command start = StartCommand(2);
  start.mutable_start_workers()->mutable_restore()->set_step(10);
  start.mutable_start_workers()->mutable_restore()->set_tier(wire::Restore::TIER_DISK);
  agent.Give(start);
  agent.Step(Persisted(1, 10));
  const auto writes = Only<WriteManifest>(agent.Give(CommitCommand(1, 10)));
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].current_epoch, 2u);
  EXPECT_EQ(writes[0].protected_steps, std::vector<uint64_t>{10});
}

TEST(AgentCoreSnapshot, AGrantForAJobOfAnEarlierLifeIsRefusedAloud) {
  AgentHarness agent = Connect();
  EXPECT_TRUE(Only<WriteManifest>(agent.Give(CommitCommand(1, 10))).empty());
  EXPECT_EQ(Kinds(agent.TakeSent()), "snapshot_failed");
}

wire::Command StartWithPeer(uint64_t epoch, const std::string& peer) {
  wire::Command command = StartCommand(epoch);
  wire::StartWorkers& start = *command.mutable_start_workers();
  start.mutable_job()->mutable_snapshot()->set_replicated(false);
  start.set_peer_node(peer);
  start.set_peer_address("10.0.0.2");
  start.set_peer_port(4000);
  return command;
}

CopiesSent Copied(uint64_t epoch, uint64_t step, const std::string& holder,
                  const std::string& error = "") {
  return {kTestJob, epoch, step, holder, Duration(5), error};
}

// The gang has another size: what this node sealed belongs to the ranks and the world it had then.
TEST(AgentCoreSnapshot, WhatWasSealedKeepsTheRanksItWasSealedUnder) {
  AgentHarness agent = Connect();
  const auto start = [](uint64_t epoch, uint32_t first_rank, uint32_t world) {
    wire::Command command = StartCommand(epoch, 2, first_rank);
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

TEST(AgentCoreSnapshot, APeerThatTakesNothingIsToldOfOnce) {
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
  wire::Command again = StartWithPeer(2, "node-3");
  again.mutable_start_workers()->mutable_restore()->set_step(10);
  again.mutable_start_workers()->mutable_restore()->set_tier(wire::Restore::TIER_MEMORY);
  const auto copies = Only<SendCopies>(agent.Give(again));
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].step, 10u);
  EXPECT_EQ(copies[0].epoch, 1u);
  EXPECT_EQ(copies[0].start->peer_node(), "node-3");
}

TEST(AgentCoreSnapshot, ReplicatedStateAndNodesAloneSendNoCopies) {
  AgentHarness agent = Connect();
  wire::Command replicated = StartWithPeer(1, "node-2");
  replicated.mutable_start_workers()->mutable_job()->mutable_snapshot()->set_replicated(true);
  agent.Give(replicated);
  agent.Fork(1);
  agent.Seal(1, 10);
  EXPECT_TRUE(Only<SendCopies>(agent.last_effects()).empty());
  wire::Command alone = StartWithPeer(2, "");
  alone.mutable_start_workers()->set_peer_port(0);
  alone.mutable_start_workers()->mutable_restore()->set_step(10);
  EXPECT_TRUE(Only<SendCopies>(agent.Give(alone)).empty());
}

TEST(AgentCoreSnapshot, TheIntervalIsPassedOnOnce) {
  AgentHarness agent = Connect();
  agent.Start(2);
  wire::Command command;
  wire::SetSnapshotInterval& interval = *command.mutable_set_snapshot_interval();
  interval.set_job_id(kTestJob.value());
  interval.set_epoch(2);
  interval.set_steps(30);
  EXPECT_EQ(Only<TellInterval>(agent.Give(command)).size(), 1u);
  EXPECT_TRUE(agent.Give(command).empty());
  interval.set_epoch(1);
  EXPECT_TRUE(agent.Give(command).empty());
}

// -- probes, chaos, the end of a job

TEST(AgentCoreProbe, AddsWhatTheAgentKnows) {
  AgentHarness agent = Connect();
  agent.Start(1);
  WorkerStep step;
  step.worker = WorkerOf(1, 1);
  step.step = 12;
  agent.Step(step);
  wire::Command command;
  command.mutable_probe_workers()->set_job_id(kTestJob.value());
  command.mutable_probe_workers()->set_epoch(1);
  command.mutable_probe_workers()->set_resume_stopped(true);
  const auto probes = Only<ProbeWorkersNow>(agent.Give(command));
  ASSERT_EQ(probes.size(), 1u);
  EXPECT_EQ(probes[0].ranks, (std::vector<uint32_t>{0, 1}));
  EXPECT_TRUE(probes[0].resume_stopped);
  agent.TakeSent();
  ProbedWorkers answer{kTestJob, 1, {}};
  answer.workers.emplace_back().set_rank(1);
  answer.workers.back().set_process_state("T");
  agent.Step(answer);
  const std::vector<wire::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "workers_probed");
  EXPECT_EQ(sent[0].workers_probed().workers(0).last_step(), 12u);
  EXPECT_EQ(sent[0].workers_probed().workers(0).process_state(), "T");
}

TEST(AgentCoreFault, AnInjectedKillIsNotAsked) {
  AgentHarness agent = Connect();
  agent.Start(1);
  const wire::Command fault = FaultCommand(wire::PlannedFault::KILL_WORKER, 1, 1);
  const auto signals = Only<SignalWorker>(agent.Give(fault));
  ASSERT_EQ(signals.size(), 1u);
  EXPECT_EQ(signals[0].worker.rank, 1u);
  EXPECT_TRUE(agent.Give(fault).empty()) << "a repetition does nothing";
  agent.TakeSent();
  agent.End(1, 1);
  EXPECT_FALSE(agent.TakeSent()[0].worker_exited().asked());
}

TEST(AgentCoreFault, AnInjectedKillStaysTheCauseWhenAllAreKilledBeforeItIsSeen) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Give(FaultCommand(wire::PlannedFault::KILL_WORKER, 1, 1));
  const auto signals = Only<SignalWorker>(agent.Give(KillCommand(1)));
  ASSERT_EQ(signals.size(), 1u);
  EXPECT_EQ(signals[0].worker.rank, 0u);
  agent.TakeSent();
  agent.End(1, 1);
  EXPECT_FALSE(agent.TakeSent()[0].worker_exited().asked());
  agent.End(1, 0);
  EXPECT_TRUE(agent.TakeSent()[0].worker_exited().asked());
}

TEST(AgentCoreFault, AStoppedWorkerGoesOnWhenItsTimeIsOver) {
  AgentHarness agent = Connect();
  agent.Start(1);
  const auto stop =
      Only<SignalWorker>(agent.Give(FaultCommand(wire::PlannedFault::STOP_WORKER, 1, 0)));
  ASSERT_EQ(stop.size(), 1u);
  EXPECT_EQ(stop[0].signal, SIGSTOP);
  EXPECT_EQ(agent.core().NextDeadline(), agent.now() + seconds(20));
  agent.Advance(seconds(20));
  const auto resume = Only<SignalWorker>(agent.Step(TimerFired{}));
  ASSERT_EQ(resume.size(), 1u);
  EXPECT_EQ(resume[0].signal, SIGCONT);
  EXPECT_FALSE(agent.core().NextDeadline().has_value());
}

TEST(AgentCoreFault, KillsTheNodeOnlyInTheEpochMeant) {
  AgentHarness agent = Connect();
  agent.Start(2);
  const auto kind = wire::PlannedFault::KILL_AGENT;
  EXPECT_TRUE(agent.Give(FaultCommand(kind, 1, 0)).empty());
  const auto killed = Only<KillNode>(agent.Give(FaultCommand(kind, 2, 0)));
  ASSERT_EQ(killed.size(), 1u);
  EXPECT_FALSE(killed[0].memory_too);
  const auto node = FaultCommand(wire::PlannedFault::KILL_NODE, 2, 0);
  EXPECT_TRUE(Only<KillNode>(agent.Give(node)).at(0).memory_too);
  AgentHarness reborn = Connect();
  EXPECT_TRUE(reborn.Give(FaultCommand(kind, 2, 0)).empty());
}

TEST(AgentCoreSnapshot, APoisonedOneIsToldAndGoesNowhere) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Step(WorkerSealed{WorkerOf(1, 0), 10, Duration(5), 10, agent.now(), true});
  agent.TakeSent();
  const auto effects =
      agent.Step(WorkerSealed{WorkerOf(1, 1), 10, Duration(5), 10, agent.now(), false});
  EXPECT_TRUE(Only<PersistPieces>(effects).empty());
  const auto sent = agent.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(sent[0].snapshot_sealed().poisoned()) << "one bad rank is enough";
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
  EXPECT_EQ(joined().held(1).epoch(), 3u);
  EXPECT_TRUE(joined().held(2).copy());
  core.Step(CommandReceived{StartCommand(4)}, Instant{});
  EXPECT_EQ(joined().held_size(), 1);
  wire::Command forget;
  forget.mutable_forget_job()->set_job_id("other");
  const auto dropped = Only<DropJob>(core.Step(CommandReceived{forget}, Instant{}));
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0].job, JobId("other"));
  EXPECT_EQ(joined().held_size(), 0);
}

TEST(AgentCoreAdoption, PersistsWhatItsWorkersGoOnFrom) {
  AgentCore core = Adopter();
  wire::Command start = StartCommand(4);
  start.mutable_start_workers()->mutable_restore()->set_tier(wire::Restore::TIER_MEMORY);
  start.mutable_start_workers()->mutable_restore()->set_step(10);
  const auto persist = Only<PersistPieces>(core.Step(CommandReceived{start}, Instant{}));
  ASSERT_EQ(persist.size(), 1u);
  EXPECT_EQ(persist[0].step, 10u);
  EXPECT_EQ(persist[0].epoch, 3u) << "that sealed it";
  AgentCore other = Adopter();
  start.mutable_start_workers()->mutable_restore()->set_step(8);
  EXPECT_TRUE(Only<PersistPieces>(other.Step(CommandReceived{start}, Instant{})).empty());
}

TEST(AgentCoreForget, DropsTheJobOnceNothingIsLeft) {
  AgentHarness agent = Connect();
  agent.Start(1);
  const auto effects = agent.Give(ForgetCommand());
  EXPECT_TRUE(Only<DropJob>(effects).empty());
  EXPECT_EQ(Only<SignalWorker>(effects).size(), 2u) << "a job that is over has no workers";
  agent.End(1, 0);
  const auto last = agent.End(1, 1);
  EXPECT_EQ(Only<DropJob>(last).size(), 1u);
  EXPECT_EQ(Only<CloseStores>(last).size(), 1u);
  EXPECT_TRUE(agent.Give(StartCommand(2)).empty()) << "a late command";
}

TEST(AgentCoreForget, AJobThatWaitsMayComeBackWithAHigherEpoch) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.End(1, 0);
  agent.End(1, 1);
  wire::Command command = ForgetCommand();
  command.mutable_forget_job()->set_epoch(1);
  EXPECT_EQ(Only<DropJob>(agent.Give(command)).size(), 1u);
  EXPECT_TRUE(agent.Give(StartCommand(1)).empty()) << "a late command";
  EXPECT_FALSE(agent.Give(StartCommand(2)).empty());
  EXPECT_TRUE(Only<DropJob>(agent.Give(command)).empty()) << "it is back";
}

TEST(AgentCoreForget, WaitsForTheDisk) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Seal(1, 10);
  agent.End(1, 0);
  agent.End(1, 1);
  EXPECT_TRUE(Only<DropJob>(agent.Give(ForgetCommand())).empty());
  EXPECT_EQ(Only<DropJob>(agent.Step(Persisted(1, 10))).size(), 1u);
}

}  // namespace
}  // namespace longhaul::runtime
