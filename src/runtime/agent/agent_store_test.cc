// The agent's core and the rendezvous store of an attempt.
#include <gtest/gtest.h>

#include "runtime/agent/agent_core.h"
#include "runtime/agent/agent_core_fixture.h"

namespace longhaul::runtime {
namespace {

proto::Command StoreCommand(uint64_t attempt) {
  proto::Command command;
  command.mutable_open_store()->set_job_id(kTestJob.value());
  command.mutable_open_store()->set_attempt(attempt);
  command.mutable_open_store()->set_world(4);
  return command;
}

TEST(AgentCoreStore, OpensAFreshOneAndClosesThoseBelow) {
  AgentHarness agent = Connect();
  const auto effects = agent.Give(StoreCommand(2));
  ASSERT_EQ(Only<OpenStoreAt>(effects).size(), 1u);
  EXPECT_EQ(Only<OpenStoreAt>(effects)[0].attempt, 2u);
  EXPECT_EQ(Only<CloseStores>(effects)[0].below_attempt, 2u);
  agent.Step(StoreListening{kTestJob, 2, 4711, ""});
  EXPECT_EQ(agent.TakeSent().back().store_opened().port(), 4711u);
}

TEST(AgentCoreStore, OfACommandOpensOnceTheVersionOfItsPyTorchIsKnown) {
  AgentHarness agent = Connect();
  const auto with_command = [](uint64_t attempt) {
    proto::Command command = StoreCommand(attempt);
    command.mutable_open_store()->mutable_workload()->add_command("python3");
    return command;
  };
  const auto effects = agent.Give(with_command(1));
  ASSERT_EQ(Only<FindTorch>(effects).size(), 1u);
  EXPECT_EQ(Only<FindTorch>(effects)[0].workload.command(0), "python3");
  EXPECT_TRUE(Only<OpenStoreAt>(effects).empty());
  // The next attempt comes before the answer: one question, and the store of the newest attempt.
  EXPECT_TRUE(Only<FindTorch>(agent.Give(with_command(2))).empty());
  const auto opened = Only<OpenStoreAt>(agent.Step(TorchFound{kTestJob, "2.1.0"}));
  ASSERT_EQ(opened.size(), 1u);
  EXPECT_EQ(opened[0].attempt, 2u);
  EXPECT_EQ(opened[0].torch_version, "2.1.0");
  agent.Step(StoreListening{kTestJob, 2, 4711, ""});
  EXPECT_EQ(agent.TakeSent().back().store_opened().torch_version(), "2.1.0");
  EXPECT_EQ(Only<OpenStoreAt>(agent.Give(with_command(3))).size(), 1u) << "asked once a job";
}

TEST(AgentCoreStore, IsNotOpenedForAnAttemptThatEndedWhileTheVersionWasSought) {
  proto::Command forget;
  forget.mutable_forget_job()->set_job_id(kTestJob.value());
  forget.mutable_forget_job()->set_attempt(1);
  proto::Command kill;
  kill.mutable_kill_workers()->set_job_id(kTestJob.value());
  kill.mutable_kill_workers()->set_attempt(2);
  for (const proto::Command& end : {forget, kill}) {
    AgentHarness agent = Connect();
    proto::Command command = StoreCommand(1);
    command.mutable_open_store()->mutable_workload()->add_command("python3");
    agent.Give(command);
    agent.Give(end);
    EXPECT_TRUE(Only<OpenStoreAt>(agent.Step(TorchFound{kTestJob, "2.1.0"})).empty());
  }
}

TEST(AgentCoreStore, IsNotOpenedByAnAgentThatShutsDownWhileTheVersionIsSought) {
  AgentHarness agent = Connect();
  proto::Command command = StoreCommand(1);
  command.mutable_open_store()->mutable_workload()->add_command("python3");
  agent.Give(command);
  agent.Step(ShutDownAsked{std::chrono::seconds(1), false});
  EXPECT_TRUE(Only<OpenStoreAt>(agent.Step(TorchFound{kTestJob, "2.1.0"})).empty());
}

TEST(AgentCoreStore, IgnoresRepetitionsAndLowerAttempts) {
  AgentHarness agent = Connect();
  agent.Give(StoreCommand(2));
  EXPECT_TRUE(agent.Give(StoreCommand(2)).empty());
  EXPECT_TRUE(agent.Give(StoreCommand(1)).empty());
}

TEST(AgentCoreStore, AFailureIsAFailedStart) {
  AgentHarness agent = Connect();
  agent.Give(StoreCommand(1));
  agent.Step(StoreListening{kTestJob, 1, 0, "no such address"});
  const std::vector<proto::Event> sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "workers_failed_to_start");
  EXPECT_NE(sent[0].workers_failed_to_start().reason().find("no such address"), std::string::npos);
}

}  // namespace
}  // namespace longhaul::runtime
