#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "runtime/agent/agent_core_fixture.h"

namespace longhaul::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// An agent with two workers that can continue, of which the second one has just been killed.
AgentHarness AfterAKill() {
  AgentHarness agent = Connect();
  agent.Start(1);
  agent.Step(WorkerContinues{WorkerOf(1, 0)});
  agent.Step(WorkerContinues{WorkerOf(1, 1)});
  agent.End(1, 1);
  agent.TakeSent();
  return agent;
}

TEST(AgentContinue, KeepsAWorkerThatLeavesItsGroup) {
  AgentHarness agent = AfterAKill();
  const auto effects = agent.Give(KillCommand(1));
  ASSERT_EQ(Only<LeaveGroup>(effects).size(), 1u);
  EXPECT_EQ(Only<LeaveGroup>(effects)[0].worker, WorkerOf(1, 0));
  EXPECT_TRUE(Only<SignalWorker>(effects).empty());
  EXPECT_EQ(Kinds(agent.TakeSent()), "");

  agent.Step(WorkerLeft{WorkerOf(1, 0)});
  const auto sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "worker_exited attempt_closed");
  EXPECT_TRUE(sent[0].worker_exited().asked());
  EXPECT_FALSE(agent.core().DisturbedByTests(kTestJob.value()));
  EXPECT_TRUE(agent.core().KeepsWorkers());

  const auto started = agent.Give(StartCommand(2));
  EXPECT_FALSE(agent.core().KeepsWorkers());
  const auto continued = Only<ContinueWorker>(started);
  ASSERT_EQ(continued.size(), 1u);
  EXPECT_EQ(continued[0].from, WorkerOf(1, 0));
  EXPECT_EQ(continued[0].worker, WorkerOf(2, 0));
  const auto spawned = Only<SpawnWorker>(started);
  ASSERT_EQ(spawned.size(), 1u) << "only the failed process is replaced";
  EXPECT_EQ(spawned[0].worker, WorkerOf(2, 1));
  agent.Fork(2);
  EXPECT_EQ(Kinds(agent.TakeSent()), "workers_started");
}

TEST(AgentContinue, KeepsAWorkerThatLeftBeforeTheOrder) {
  AgentHarness agent = AfterAKill();
  agent.Step(WorkerLeft{WorkerOf(1, 0)});
  EXPECT_EQ(Kinds(agent.TakeSent()), "") << "there may be no fault";
  EXPECT_TRUE(Only<LeaveGroup>(agent.Give(KillCommand(1))).empty());
  EXPECT_EQ(Kinds(agent.TakeSent()), "worker_exited attempt_closed");
  EXPECT_EQ(Only<ContinueWorker>(agent.Give(StartCommand(2))).size(), 1u);
}

TEST(AgentContinue, AStartThatComesBeforeTheWorkerHasLeftWaitsForIt) {
  AgentHarness agent = AfterAKill();
  agent.Give(KillCommand(1));
  const auto early = agent.Give(StartCommand(2));
  EXPECT_TRUE(Only<SignalWorker>(early).empty());
  EXPECT_TRUE(Only<SpawnWorker>(early).empty());
  const auto left = agent.Step(WorkerLeft{WorkerOf(1, 0)});
  EXPECT_EQ(Only<ContinueWorker>(left).size(), 1u);
  EXPECT_EQ(Only<SpawnWorker>(left).size(), 1u);
}

TEST(AgentContinue, AStartAloneEndsTheAttemptBefore) {
  AgentHarness agent = AfterAKill();
  agent.Step(WorkerLeft{WorkerOf(1, 0)});
  const auto started = agent.Give(StartCommand(2));
  EXPECT_EQ(Only<ContinueWorker>(started).size(), 1u);
  EXPECT_EQ(Kinds(agent.TakeSent()), "worker_exited attempt_closed");
}

TEST(AgentContinue, KillsAWorkerThatDoesNotLeaveWithinTheLimit) {
  AgentHarness agent = AfterAKill();
  agent.Give(KillCommand(1));
  ASSERT_TRUE(agent.core().NextDeadline().has_value());
  EXPECT_EQ(*agent.core().NextDeadline(), agent.now() + seconds(2));
  agent.Advance(seconds(2) - milliseconds(1));
  EXPECT_TRUE(Only<SignalWorker>(agent.Step(TimerFired{})).empty());
  agent.Advance(milliseconds(1));
  const auto killed = Only<SignalWorker>(agent.Step(TimerFired{}));
  ASSERT_EQ(killed.size(), 1u);
  EXPECT_EQ(killed[0].signal, SIGKILL);
  agent.Step(WorkerLeft{WorkerOf(1, 0)});  // too late
  EXPECT_EQ(Kinds(agent.TakeSent()), "");
  agent.End(1, 0);
  EXPECT_EQ(Kinds(agent.TakeSent()), "worker_exited attempt_closed");
  EXPECT_EQ(Only<SpawnWorker>(agent.Give(StartCommand(2))).size(), 2u);
}

TEST(AgentContinue, KillsAtOnceAWorkerThatCannotContinue) {
  AgentHarness agent = AfterAKill();
  agent.Step(WorkerContinues{WorkerOf(1, 0), false});  // it has closed its connection
  const auto effects = agent.Give(KillCommand(1));
  EXPECT_TRUE(Only<LeaveGroup>(effects).empty());
  ASSERT_EQ(Only<SignalWorker>(effects).size(), 1u);
  EXPECT_EQ(Only<SignalWorker>(effects)[0].signal, SIGKILL);
}

TEST(AgentContinue, StartsANewProcessWhenAKeptOneHasEnded) {
  AgentHarness agent = AfterAKill();
  agent.Give(KillCommand(1));
  agent.Step(WorkerLeft{WorkerOf(1, 0)});
  agent.TakeSent();
  agent.End(1, 0);
  EXPECT_EQ(Kinds(agent.TakeSent()), "") << "the controller has heard of its end";
  const auto started = agent.Give(StartCommand(2));
  EXPECT_EQ(Only<SpawnWorker>(started).size(), 2u);
  EXPECT_TRUE(Only<ContinueWorker>(started).empty());
}

TEST(AgentContinue, EndsAKeptProcessThatNoAttemptNeeds) {
  const proto::Command forget = [] {
    proto::Command command;
    command.mutable_forget_job()->set_job_id(kTestJob.value());
    return command;
  }();
  const struct {
    const char* name;
    AgentInput input;
    Duration after;
  } kRows[] = {
      {"the job has ended", CommandReceived{forget}, Duration(0)},
      {"the job leaves", CommandReceived{KillCommand(1, seconds(5))}, Duration(0)},
      {"an attempt of fewer workers", CommandReceived{StartCommand(2, 1, 1)}, Duration(0)},
      {"no attempt began", TimerFired{}, seconds(30)},
      {"the agent ends", ShutDownAsked{seconds(1)}, Duration(0)},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.name);
    AgentHarness agent = Connect();
    agent.Start(1);
    agent.Step(WorkerContinues{WorkerOf(1, 1)});
    agent.Give(KillCommand(1));
    agent.End(1, 0);
    agent.Step(WorkerLeft{WorkerOf(1, 1)});
    agent.Advance(row.after);
    const auto signals = Only<SignalWorker>(agent.Step(row.input));
    ASSERT_EQ(signals.size(), 1u);
    EXPECT_EQ(signals[0].worker, WorkerOf(1, 1));
    EXPECT_EQ(signals[0].signal, SIGKILL);
  }
}

TEST(AgentContinue, IgnoresWorkersOfOtherAttempts) {
  AgentHarness agent = AfterAKill();
  agent.Step(WorkerContinues{WorkerOf(7, 0)});
  agent.Step(WorkerLeft{WorkerOf(7, 0)});
  agent.Step(WorkerLeft{WorkerOf(1, 9)});
  EXPECT_EQ(Kinds(agent.TakeSent()), "");
  EXPECT_EQ(Only<LeaveGroup>(agent.Give(KillCommand(1))).size(), 1u);
}

TEST(AgentContinue, KeepsAWorkerAgainInTheNextAttempt) {
  AgentHarness agent = AfterAKill();
  agent.Give(KillCommand(1));
  agent.Step(WorkerLeft{WorkerOf(1, 0)});
  agent.Give(StartCommand(2));
  agent.Fork(2);
  agent.Step(WorkerContinues{WorkerOf(2, 0)});
  agent.End(2, 1);
  agent.Give(KillCommand(2));
  agent.Step(WorkerLeft{WorkerOf(2, 0)});
  const auto continued = Only<ContinueWorker>(agent.Give(StartCommand(3)));
  ASSERT_EQ(continued.size(), 1u);
  EXPECT_EQ(continued[0].from, WorkerOf(2, 0));
}

}  // namespace
}  // namespace longhaul::runtime
