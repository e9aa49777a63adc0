// Commands of the controller to running workers: probes, looks at what they do, planned faults.
#include <gtest/gtest.h>

#include <csignal>

#include "runtime/agent/agent_core_fixture.h"

namespace longhaul::runtime {
namespace {

using std::chrono::seconds;

proto::Command FaultCommand(proto::PlannedFault::Kind kind, uint64_t attempt, uint32_t target) {
  proto::Command command;
  proto::InjectFault& inject = *command.mutable_inject_fault();
  inject.set_job_id(kTestJob.value());
  inject.set_attempt(attempt);
  inject.mutable_fault()->set_kind(kind);
  inject.mutable_fault()->set_target(target);
  inject.mutable_fault()->set_step(40);
  inject.mutable_fault()->set_duration_ns(Duration(seconds(20)).count());
  return command;
}

TEST(AgentCoreProbe, AddsWhatTheAgentKnows) {
  AgentHarness agent = Connect();
  agent.Start(1);
  WorkerStep step;
  step.worker = WorkerOf(1, 1);
  step.step = 12;
  agent.Step(step);
  proto::Command command;
  command.mutable_probe_workers()->set_job_id(kTestJob.value());
  command.mutable_probe_workers()->set_attempt(1);
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
  const std::vector<proto::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "workers_probed");
  EXPECT_EQ(sent[0].workers_probed().workers(0).last_step(), 12u);
  EXPECT_EQ(sent[0].workers_probed().workers(0).process_state(), "T");
}

proto::Command SampleCommand(uint64_t attempt, Duration period) {
  proto::Command command;
  command.mutable_sample_workers()->set_job_id(kTestJob.value());
  command.mutable_sample_workers()->set_attempt(attempt);
  command.mutable_sample_workers()->set_period_ns(period.count());
  return command;
}

TEST(AgentCoreSample, LooksAtTheWorkersOfTheAttempt) {
  AgentHarness agent = Connect();
  agent.Start(1);
  const auto orders = Only<SampleWorkersNow>(agent.Give(SampleCommand(1, std::chrono::seconds(2))));
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].ranks, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(orders[0].period, std::chrono::seconds(2));
  agent.TakeSent();
  SampledWorkers answer{kTestJob, 1, {}};
  answer.found.add_workers()->set_rank(1);
  agent.Step(answer);
  const std::vector<proto::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "workers_sampled");
  EXPECT_EQ(sent[0].workers_sampled().attempt(), 1u);
  EXPECT_EQ(sent[0].workers_sampled().workers(0).rank(), 1u);
}

TEST(AgentCoreSample, APeriodIsBounded) {
  AgentHarness agent = Connect();
  agent.Start(1);
  for (const Duration period : {Duration::min(), Duration(0), Duration::max()}) {
    const auto orders = Only<SampleWorkersNow>(agent.Give(SampleCommand(1, period)));
    ASSERT_EQ(orders.size(), 1u);
    EXPECT_GE(orders[0].period, std::chrono::milliseconds(100));
    EXPECT_LE(orders[0].period, std::chrono::minutes(10));
  }
}

TEST(AgentCoreSample, AnEarlierAttemptIsNotLookedAt) {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Give(KillCommand(1));
  agent.Start(2);
  EXPECT_TRUE(
      Only<SampleWorkersNow>(agent.Give(SampleCommand(1, std::chrono::seconds(2)))).empty());
  agent.TakeSent();
  agent.Step(SampledWorkers{kTestJob, 1, {}});
  EXPECT_EQ(Kinds(agent.TakeSent()), "");
}

TEST(AgentCoreFault, AnInjectedKillIsNotAsked) {
  AgentHarness agent = Connect();
  agent.Start(1);
  const proto::Command fault = FaultCommand(proto::PlannedFault::KILL_WORKER, 1, 1);
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
  agent.Give(FaultCommand(proto::PlannedFault::KILL_WORKER, 1, 1));
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
      Only<SignalWorker>(agent.Give(FaultCommand(proto::PlannedFault::STOP_WORKER, 1, 0)));
  ASSERT_EQ(stop.size(), 1u);
  EXPECT_EQ(stop[0].signal, SIGSTOP);
  EXPECT_EQ(agent.core().NextDeadline(), agent.now() + seconds(20));
  agent.Advance(seconds(20));
  const auto resume = Only<SignalWorker>(agent.Step(TimerFired{}));
  ASSERT_EQ(resume.size(), 1u);
  EXPECT_EQ(resume[0].signal, SIGCONT);
  EXPECT_FALSE(agent.core().NextDeadline().has_value());
}

TEST(AgentCoreFault, KillsTheNodeOnlyInTheAttemptMeant) {
  AgentHarness agent = Connect();
  agent.Start(2);
  const auto kind = proto::PlannedFault::KILL_AGENT;
  EXPECT_TRUE(agent.Give(FaultCommand(kind, 1, 0)).empty());
  const auto killed = Only<KillNode>(agent.Give(FaultCommand(kind, 2, 0)));
  ASSERT_EQ(killed.size(), 1u);
  EXPECT_FALSE(killed[0].memory_too);
  const auto node = FaultCommand(proto::PlannedFault::KILL_NODE, 2, 0);
  EXPECT_TRUE(Only<KillNode>(agent.Give(node)).at(0).memory_too);
  AgentHarness reborn = Connect();
  EXPECT_TRUE(reborn.Give(FaultCommand(kind, 2, 0)).empty());
}

WorkerGone GoneStopped(uint32_t rank) {
  WorkerGone gone{WorkerOf(1, rank), -1, SIGKILL, "", 0};
  gone.was_stopped = true;
  return gone;
}

TEST(AgentCoreFault, AWorkerThatWasStoppedWhenItWasEndedIsReported) {
  AgentHarness agent = Connect();
  agent.Start(1);
  proto::Command fault = FaultCommand(proto::PlannedFault::STOP_WORKER, 1, 1);
  fault.mutable_inject_fault()->mutable_fault()->set_duration_ns(60'000'000'000);
  agent.Give(fault);
  agent.Give(KillCommand(1));
  agent.TakeSent();
  agent.Step(GoneStopped(0));
  agent.Step(GoneStopped(1));
  const auto sent = agent.TakeSent();
  ASSERT_GE(sent.size(), 2u);
  EXPECT_TRUE(sent[0].worker_exited().was_stopped());
  EXPECT_FALSE(sent[1].worker_exited().was_stopped()) << "a planned fault has stopped it";
}

TEST(AgentCoreFault, APlannedPauseIsNotReportedAsAStop) {
  AgentHarness agent;
  agent.Step(Connected{0});
  agent.Start(1);
  proto::Command fault = FaultCommand(proto::PlannedFault::STOP_WORKER, 1, 1);
  fault.mutable_inject_fault()->mutable_fault()->set_duration_ns(60'000'000'000);
  agent.Give(fault);
  agent.TakeSent();
  const WorkerQuiet stopped{WorkerOf(1, 1), std::chrono::seconds(40), std::chrono::seconds(40),
                            "nothing"};
  agent.Step(stopped);
  EXPECT_EQ(Kinds(agent.TakeSent()), "");
  agent.Advance(std::chrono::seconds(61));
  agent.Step(TimerFired{});
  agent.Step(stopped);
  const auto sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "worker_silent") << "the pause is over";
  EXPECT_EQ(sent[0].worker_silent().stopped_ns(), 40'000'000'000);
  EXPECT_EQ(sent[0].worker_silent().evidence(), "nothing");
}

}  // namespace
}  // namespace longhaul::runtime
