#include "runtime/agent/agent_core.h"

#include <gtest/gtest.h>

#include <csignal>

#include "runtime/agent/agent_core_fixture.h"

namespace longhaul::runtime::agent_core_test {
namespace {

using std::chrono::seconds;

proto::Command ForgetCommand() {
  proto::Command command;
  command.mutable_forget_job()->set_job_id(kTestJob.value());
  return command;
}

PiecesPersisted Persisted(uint64_t attempt, uint64_t step, std::string error = "") {
  return {kTestJob, attempt, step, {}, Duration(1), std::move(error), false};
}

// -- the link

TEST(AgentCoreLink, TellsThePresentWhenItJoins) {
  AgentHarness agent;
  agent.Start(1);
  agent.End(1, 1);
  agent.Step(Connected{0});
  const std::vector<proto::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "workers_started worker_exited agent_joined");
  const proto::AgentJoined& joined = sent.back().agent_joined();
  EXPECT_EQ(joined.slots(), 2u);
  ASSERT_EQ(joined.running_size(), 1);
  EXPECT_EQ(joined.running(0).attempt(), 1u);
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
  const std::vector<proto::Event> sent = agent.TakeSent();
  EXPECT_EQ(Kinds(sent), "worker_exited agent_joined");
  EXPECT_EQ(sent.front().sequence(), 3u);
  EXPECT_EQ(sent.back().sequence(), 4u);
  EXPECT_EQ(sent.back().incarnation(), 7u);
  EXPECT_EQ(sent.back().node(), "node-1");
}

TEST(AgentCoreTests, DisturbTheWorkersOfTheirJobAndAnyOtherJob) {
  AgentHarness agent = Connect();
  EXPECT_FALSE(agent.core().DisturbedByTests(""));
  agent.Start(1);
  EXPECT_TRUE(agent.core().DisturbedByTests(kTestJob.value()));
  agent.Give(StartCommand(2));  // waits for the end of the first attempt
  agent.End(1, 0);
  agent.End(1, 1);
  EXPECT_TRUE(agent.core().DisturbedByTests(kTestJob.value()));
  agent.Start(2);
  agent.End(2, 0);
  EXPECT_TRUE(agent.core().DisturbedByTests(kTestJob.value()));
  agent.End(2, 1);
  EXPECT_FALSE(agent.core().DisturbedByTests(kTestJob.value()));
  EXPECT_TRUE(agent.core().DisturbedByTests("another"));
  EXPECT_TRUE(agent.core().DisturbedByTests(""));
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
  const std::vector<proto::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "workers_started");
  EXPECT_EQ(sent[0].workers_started().pids(0), 102);
  EXPECT_EQ(sent[0].workers_started().pids(1), 103);
}

TEST(AgentCoreStart, IgnoresRepetitionsAndLowerAttempts) {
  AgentHarness agent = Connect();
  agent.Start(2);
  EXPECT_TRUE(agent.Give(StartCommand(2)).empty());
  EXPECT_TRUE(agent.Give(StartCommand(1)).empty());
  agent.End(2, 0);
  agent.End(2, 1);
  EXPECT_TRUE(agent.Give(StartCommand(2)).empty()) << "an attempt never starts twice";
}

TEST(AgentCoreStart, WaitsUntilLowerAttemptsAreReaped) {
  AgentHarness agent = Connect();
  agent.Start(1);
  const auto effects = agent.Give(StartCommand(2));
  EXPECT_TRUE(Only<SpawnWorker>(effects).empty());
  const auto signals = Only<SignalWorker>(effects);
  ASSERT_EQ(signals.size(), 2u);
  EXPECT_EQ(signals[0].signal, SIGKILL);
  EXPECT_TRUE(Only<SpawnWorker>(agent.End(1, 0)).empty());
  EXPECT_EQ(Only<SpawnWorker>(agent.End(1, 1)).size(), 2u);
  const std::vector<proto::Event> sent = agent.TakeSent();
  EXPECT_EQ(Kinds(sent), "workers_started worker_exited worker_exited attempt_closed");
  EXPECT_TRUE(sent[1].worker_exited().asked());
}

TEST(AgentCoreStart, OnlyTheHighestOfWaitingAttemptsStarts) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Give(StartCommand(2));
  agent.Give(StartCommand(3));
  agent.End(1, 0);
  const auto spawns = Only<SpawnWorker>(agent.End(1, 1));
  ASSERT_EQ(spawns.size(), 2u);
  EXPECT_EQ(spawns[0].worker.attempt, 3u);
}

TEST(AgentCoreStart, AFailureEndsTheOthersAndIsReportedOnce) {
  AgentHarness agent = Connect();
  agent.Give(StartCommand(1));
  agent.Step(WorkerForked{WorkerOf(1, 0), 100, "", false});
  const auto effects = agent.Step(WorkerForked{WorkerOf(1, 1), 0, "no such program", true});
  EXPECT_EQ(Only<SignalWorker>(effects).size(), 1u);
  agent.End(1, 0);
  const std::vector<proto::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "workers_failed_to_start worker_exited attempt_closed");
  EXPECT_TRUE(sent[0].workers_failed_to_start().permanent());
  EXPECT_TRUE(sent[1].worker_exited().asked());
}

TEST(AgentCoreStart, TheFailureOfTheOnlyWorkerIsReportedToo) {
  AgentHarness agent = Connect();
  agent.Give(StartCommand(1, 1));
  agent.Step(WorkerForked{WorkerOf(1, 0), 0, "no such program", true});
  EXPECT_EQ(Kinds(agent.TakeSent()), "workers_failed_to_start attempt_closed");
}

TEST(AgentCoreStart, RefusesMoreWorkersThanSlots) {
  AgentHarness agent = Connect();
  const auto effects = agent.Give(StartCommand(1, 3));
  EXPECT_TRUE(Only<SpawnWorker>(effects).empty());
  const std::vector<proto::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "workers_failed_to_start attempt_closed");
  EXPECT_EQ(sent[0].workers_failed_to_start().reason(), "3 workers for 2 slots");
}

TEST(AgentCoreStart, AProcessThatComesAfterItsAttemptWasKilledIsKilled) {
  AgentHarness agent = Connect();
  agent.Give(StartCommand(1, 1));
  EXPECT_TRUE(Only<SignalWorker>(agent.Give(KillCommand(1))).empty()) << "no process yet";
  const auto effects = agent.Step(WorkerForked{WorkerOf(1, 0), 100, "", false});
  ASSERT_EQ(Only<SignalWorker>(effects).size(), 1u);
  EXPECT_EQ(Only<SignalWorker>(effects)[0].signal, SIGKILL);
  agent.End(1, 0);
  EXPECT_EQ(Kinds(agent.TakeSent()), "worker_exited attempt_closed");
}

// -- ending

TEST(AgentCoreEnd, AWorkerThatDiesByItselfWasNotAsked) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.TakeSent();
  agent.Step(WorkerGone{WorkerOf(1, 1), 3, 0, "ValueError: bad", 5});
  const std::vector<proto::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "worker_exited");
  EXPECT_EQ(sent[0].worker_exited().exit_code(), 3);
  EXPECT_EQ(sent[0].worker_exited().message(), "ValueError: bad");
  EXPECT_EQ(sent[0].worker_exited().error_at_ns(), 5);
  EXPECT_FALSE(sent[0].worker_exited().asked());
  EXPECT_TRUE(agent.End(1, 1).empty()) << "twice";
}

TEST(AgentCoreEnd, AWorkerThatALimitHasEndedCarriesTheLimit) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.TakeSent();
  agent.Step(WorkerGone{WorkerOf(1, 1), -1, SIGKILL, "", 0, "too many processes", true});
  const std::vector<proto::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "worker_exited");
  EXPECT_EQ(sent[0].worker_exited().reached_limit(), "too many processes");
  EXPECT_TRUE(sent[0].worker_exited().ends_job());
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

TEST(AgentCoreEnd, KillOfALowerAttemptLeavesTheHigherAlone) {
  AgentHarness agent = Connect();
  agent.Start(2);
  EXPECT_TRUE(Only<SignalWorker>(agent.Give(KillCommand(1))).empty());
}

TEST(AgentCoreEnd, KillOfAnAttemptWithoutWorkersIsAnsweredOnce) {
  AgentHarness agent = Connect();
  agent.Give(KillCommand(3));
  const std::vector<proto::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "attempt_closed");
  EXPECT_EQ(sent[0].attempt_closed().attempt(), 3u);
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
  const std::vector<proto::Event> sent = agent.TakeSent();
  EXPECT_EQ(Kinds(sent),
            "workers_started worker_exited worker_exited attempt_closed attempt_closed");
  EXPECT_EQ(sent.back().attempt_closed().attempt(), 2u);
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

TEST(AgentCoreFence, AnOvertakenAttemptIsNotHeard) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Give(StartCommand(2));
  agent.TakeSent();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    WorkerStep step;
    step.worker = WorkerOf(1, rank);
    step.step = 1;
    agent.Step(step);
    agent.Step(WorkerPhase{WorkerOf(1, rank), proto::PhaseEntered::STEPPING, agent.now()});
  }
  agent.Seal(1, 1);
  EXPECT_EQ(Kinds(agent.TakeSent()), "");
}

TEST(AgentCoreFence, UnknownWorkersChangeNothing) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.TakeSent();
  agent.Step(WorkerPhase{WorkerOf(1, 9), proto::PhaseEntered::STEPPING, agent.now()});
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
  agent.Step(WorkerRestoreFailed{WorkerOf(1, 1), 36, proto::Restore::TIER_MEMORY, "chunk 3"});
  const std::vector<proto::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "worker_result snapshot_failed");
  EXPECT_TRUE(sent[1].snapshot_failed().while_restoring());
  EXPECT_EQ(sent[1].snapshot_failed().rank(), 1u);
}

TEST(AgentCoreFence, WaitsForSlotsAndPiecesThatAreNoGoodPass) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.TakeSent();
  agent.Step(WorkerWaitsForSlot{WorkerOf(1, 1), 40, std::chrono::seconds(6), "step 30: \xFF"});
  proto::Restore::Piece bad;
  bad.set_node("node-7");
  agent.Step(WorkerRestoreFailed{
      WorkerOf(1, 0), 36, proto::Restore::TIER_PIECES, "chunk 3", {bad}, /*served=*/true});
  const std::vector<proto::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "worker_waits snapshot_failed");
  EXPECT_EQ(sent[0].worker_waits().rank(), 1u);
  EXPECT_EQ(sent[0].worker_waits().step(), 40u);
  EXPECT_EQ(Duration(sent[0].worker_waits().waited_ns()), std::chrono::seconds(6));
  EXPECT_EQ(sent[0].worker_waits().holders(), "step 30: \uFFFD");
  EXPECT_FALSE(sent[1].snapshot_failed().while_restoring());
  ASSERT_EQ(sent[1].snapshot_failed().bad_size(), 1);
  EXPECT_EQ(sent[1].snapshot_failed().bad(0).node(), "node-7");
}

// Protobuf can't carry others: the stream would break, again and again.
TEST(AgentCoreFence, WordsOfWorkersAreMadeValidText) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.TakeSent();
  agent.Step(WorkerResultText{WorkerOf(1, 0), "{\"a\": \"\xFF\"}"});
  agent.Step(WorkerRestoreFailed{WorkerOf(1, 1), 36, proto::Restore::TIER_MEMORY, "\xC3"});
  agent.Step(WorkerGone{WorkerOf(1, 1), 3, 0, "bad \x80", 5});
  const std::vector<proto::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "worker_result snapshot_failed worker_exited");
  EXPECT_EQ(sent[0].worker_result().json(), "{\"a\": \"\uFFFD\"}");
  EXPECT_EQ(sent[1].snapshot_failed().reason(), "\uFFFD");
  EXPECT_EQ(sent[2].worker_exited().message(), "bad \uFFFD");
}

// -- the end of a job, what workers print

// The list of jobs that the node is to be ready for: job-1, if its number of workers is not 0.
proto::Command PrepareCommand(uint32_t ranks) {
  proto::Command command;
  auto* list = command.mutable_prepare_jobs();
  if (ranks > 0) *list->add_starts() = StartCommand(1, ranks).start_workers();
  return command;
}

TEST(AgentCorePrepare, AForkServerStartsOnceAndEndsWithItsPlaceInTheList) {
  AgentHarness agent = Connect();
  const auto begun = Only<PrepareFork>(agent.Give(PrepareCommand(2)));
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_EQ(begun[0].job, kTestJob);
  EXPECT_TRUE(agent.Give(PrepareCommand(2)).empty()) << "repeated";
  const auto ended = agent.Give(PrepareCommand(0));
  EXPECT_EQ(Only<EndFork>(ended).size(), 1u);
  EXPECT_TRUE(agent.Give(PrepareCommand(0)).empty());
}

TEST(AgentCorePrepare, TheForkServerOfAJobWithWorkersHereStays) {
  AgentHarness agent = Connect();
  agent.Give(PrepareCommand(2));
  agent.Start(1);
  EXPECT_TRUE(Only<EndFork>(agent.Give(PrepareCommand(0))).empty());
  EXPECT_TRUE(Only<PrepareFork>(agent.Give(PrepareCommand(2))).empty());
}

TEST(AgentCorePrepare, TheVersionOfPyTorchIsFoundInAdvance) {
  AgentHarness agent = Connect();
  proto::Command command = PrepareCommand(2);
  proto::Workload workload;
  workload.add_command("train.py");
  *command.mutable_prepare_jobs()->mutable_starts(0)->mutable_job()->mutable_workload() = workload;
  EXPECT_EQ(Only<FindTorch>(agent.Give(command)).size(), 1u);
  agent.Step(TorchFound{kTestJob, "2.9.0"});
  proto::Command open;
  open.mutable_open_store()->set_job_id(kTestJob.value());
  open.mutable_open_store()->set_attempt(2);
  *open.mutable_open_store()->mutable_workload() = workload;
  const auto opened = Only<OpenStoreAt>(agent.Give(open));
  ASSERT_EQ(opened.size(), 1u) << "at once";
  EXPECT_EQ(opened[0].torch_version, "2.9.0");
}

TEST(AgentCorePrepare, MoreWorkersThanSlotsAreNotPreparedFor) {
  AgentHarness agent = Connect();
  EXPECT_TRUE(agent.Give(PrepareCommand(3)).empty());
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

TEST(AgentCoreForget, AJobThatWaitsMayComeBackWithAHigherAttempt) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.End(1, 0);
  agent.End(1, 1);
  proto::Command command = ForgetCommand();
  command.mutable_forget_job()->set_attempt(1);
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

WorkerOutputStep Printed(uint32_t rank, uint64_t step, Instant at) {
  return {WorkerOf(1, rank), step, 50, at, 0.5};
}

TEST(AgentCore, TellsEachStepOfTheOutputOnceWhicheverRankPrintsIt) {
  AgentHarness agent;
  agent.Step(Connected{0});
  agent.Start(1);
  agent.TakeSent();
  const Instant at = InstantFromNanoseconds(42);
  agent.Step(Printed(0, 3, at));
  agent.Step(Printed(1, 3, at));
  agent.Step(Printed(1, 5, at));
  agent.Step(Printed(0, 4, at));
  const auto sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "step_reported step_reported");
  const proto::StepReported& first = sent[0].step_reported();
  EXPECT_EQ(sent[0].at_ns(), 42);
  EXPECT_TRUE(first.begins() && first.whole_job() && first.has_loss());
  EXPECT_EQ(first.last_step(), 3u);
  EXPECT_EQ(first.total_steps(), 50u);
  const proto::StepReported& second = sent[1].step_reported();
  EXPECT_FALSE(second.begins());
  EXPECT_EQ(second.first_step(), 4u);
  EXPECT_EQ(second.last_step(), 5u);
}

TEST(AgentCore, StepsReportedAtTheWorkerApiCountAlone) {
  AgentHarness agent;
  agent.Step(Connected{0});
  agent.Start(1);
  WorkerStep step;
  step.worker = WorkerOf(1, 0);
  step.step = 1;
  agent.Step(step);
  agent.TakeSent();
  agent.Step(Printed(0, 2, agent.now()));
  EXPECT_EQ(Kinds(agent.TakeSent()), "");
}

TEST(AgentCore, TellsOfAQuietWorker) {
  AgentHarness agent;
  agent.Step(Connected{0});
  agent.Start(1);
  agent.TakeSent();
  agent.Step(WorkerQuiet{WorkerOf(1, 1), std::chrono::seconds(70)});
  agent.Step(WorkerQuiet{WorkerOf(2, 1), std::chrono::seconds(70)});
  const auto sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "worker_silent") << "there is no attempt 2";
  EXPECT_EQ(sent[0].worker_silent().rank(), 1u);
  EXPECT_EQ(sent[0].worker_silent().silent_ns(), 70'000'000'000);
}

}  // namespace
}  // namespace longhaul::runtime::agent_core_test
