// The second tier, in both cores: what is copied when, and what comes back before an attempt
// starts.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "runtime/agent/agent_core_fixture.h"
#include "runtime/controller/controller.h"

namespace longhaul::runtime {
namespace {

proto::Command CopyCommand(uint64_t attempt, uint64_t step) {
  proto::Command command;
  command.mutable_copy_checkpoint()->set_job_id(kTestJob.value());
  command.mutable_copy_checkpoint()->set_attempt(attempt);
  command.mutable_copy_checkpoint()->set_step(step);
  return command;
}

TEST(AgentCopies, CopiesOneAtATimeAndTellsHowItWent) {
  AgentHarness agent;
  agent.Step(Connected{0});
  agent.Start(1);
  agent.TakeSent();
  ASSERT_EQ(Only<CopyOut>(agent.Give(CopyCommand(1, 10))).size(), 1u);
  EXPECT_TRUE(agent.Give(CopyCommand(1, 10)).empty()) << "said again";
  EXPECT_TRUE(agent.Give(CopyCommand(1, 20)).empty()) << "one at a time";
  const auto next =
      Only<CopyOut>(agent.Step(CheckpointCopied{kTestJob, 1, 10, 100, Duration(5), ""}));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].step, 20u);
  agent.Step(CheckpointCopied{kTestJob, 1, 20, 0, Duration(5), "no route"});
  const auto sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "snapshot_copied snapshot_failed");
  EXPECT_EQ(sent[0].snapshot_copied().bytes(), 100u);
  EXPECT_EQ(sent[1].snapshot_failed().tier(), proto::Restore::TIER_SHARED);
  EXPECT_FALSE(sent[1].snapshot_failed().while_restoring());
}

proto::Command FetchingStore(uint64_t attempt) {
  proto::Command command;
  proto::OpenStore& open = *command.mutable_open_store();
  open.set_job_id(kTestJob.value());
  open.set_attempt(attempt);
  open.set_world(4);
  open.mutable_fetch()->set_tier(proto::Restore::TIER_SHARED);
  open.mutable_fetch()->set_step(30);
  open.mutable_fetch()->set_saved_attempt(2);
  open.mutable_job()->mutable_snapshot()->set_copy_to("s3://models/x");
  return command;
}

TEST(AgentCopies, WhatIsBeingCopiedIsNotPruned) {
  AgentHarness agent;
  agent.Start(1);
  proto::Command command;
  command.mutable_commit_snapshot()->set_job_id(kTestJob.value());
  command.mutable_commit_snapshot()->set_attempt(1);
  command.mutable_commit_snapshot()->set_step(20);
  command.mutable_commit_snapshot()->set_copying_step(10);
  const auto writes = Only<WriteManifest>(agent.Give(command));
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].protected_steps, std::vector<uint64_t>{10});
}

TEST(AgentCopies, TheStoreOpensOnceTheCheckpointIsThere) {
  AgentHarness agent;
  agent.Step(Connected{0});
  const auto effects = agent.Give(FetchingStore(3));
  EXPECT_TRUE(Only<OpenStoreAt>(effects).empty());
  ASSERT_EQ(Only<FetchBack>(effects).size(), 1u);
  EXPECT_EQ(Only<FetchBack>(effects)[0].restore.step(), 30u);
  EXPECT_EQ(Only<FetchBack>(effects)[0].start->job().snapshot().copy_to(), "s3://models/x");
  const auto opened = Only<OpenStoreAt>(agent.Step(CheckpointFetched{kTestJob, 3, ""}));
  ASSERT_EQ(opened.size(), 1u);
  EXPECT_EQ(opened[0].world, 4u);
}

TEST(AgentCopies, ACheckpointThatDoesNotComeIsReportedAndNoStoreOpens) {
  AgentHarness agent;
  agent.Step(Connected{0});
  agent.Give(FetchingStore(3));
  agent.TakeSent();
  EXPECT_TRUE(Only<OpenStoreAt>(agent.Step(CheckpointFetched{kTestJob, 3, "damaged"})).empty());
  const auto sent = agent.TakeSent();
  ASSERT_EQ(Kinds(sent), "snapshot_failed");
  EXPECT_TRUE(sent[0].snapshot_failed().while_restoring());
  EXPECT_EQ(sent[0].snapshot_failed().step(), 30u);
  agent.Give(FetchingStore(4));
  EXPECT_TRUE(agent.Step(CheckpointFetched{kTestJob, 3, ""}).empty())
      << "of an attempt that is over";
}

// One node with one rank.
class ControllerCopies : public ::testing::Test {
 protected:
  ControllerCopies() : controller_(ControllerOptions{}) {
    proto::Event event;
    event.mutable_controller_started();
    Feed(event);
    proto::Event joined = FromNode();
    joined.mutable_agent_joined()->set_slots(1);
    joined.mutable_agent_joined()->set_address("127.0.0.1");
    Feed(joined);
    spec_.set_id("gpt-1");
    spec_.set_nodes(1);
    spec_.set_processes_per_node(1);
    spec_.mutable_workload()->set_built_in(true);
    spec_.set_total_steps(1000);
    spec_.set_max_restarts(10);
    spec_.mutable_snapshot()->set_keep(2);
    spec_.mutable_snapshot()->set_replicated(true);
    spec_.mutable_snapshot()->set_copy_to("/shared");
  }
  void Submit() {
    proto::Event event;
    *event.mutable_job_submitted()->mutable_job() = spec_;
    Feed(event);
  }
  void Feed(const proto::Event& event) {
    for (auto& [node, command] : controller_.Step(event, now_).commands) {
      if (command.has_copy_checkpoint()) {
        copied_ += std::to_string(command.copy_checkpoint().step()) + " ";
      }
      if (command.has_commit_snapshot()) {
        spared_ = command.commit_snapshot().copying_step();
      }
      if (command.has_open_store()) open_ = command.open_store();
      if (command.has_start_workers()) start_ = command.start_workers();
    }
    EXPECT_TRUE(controller_.CheckInvariants().ok()) << controller_.CheckInvariants();
  }
  proto::Event FromNode() {
    proto::Event event;
    event.set_node("node-1");
    event.set_incarnation(1);
    event.set_sequence(++sequence_);
    event.set_at_ns(ToNanoseconds(now_));
    return event;
  }
  proto::JobStatus Status() { return *controller_.JobStatus(JobId("gpt-1"), now_); }
  void Open() {
    proto::Event opened = FromNode();
    opened.mutable_store_opened()->set_job_id("gpt-1");
    opened.mutable_store_opened()->set_attempt(Status().attempt());
    opened.mutable_store_opened()->set_port(4000);
    Feed(opened);
  }
  // A step comes to disk.
  void Commit(uint64_t step) {
    const uint64_t attempt = Status().attempt();
    const auto fill = [&](auto& message) {
      message.set_job_id("gpt-1");
      message.set_attempt(attempt);
      message.set_step(step);
    };
    proto::Event sealed = FromNode(), persisted = FromNode(), committed = FromNode();
    fill(*sealed.mutable_snapshot_sealed());
    fill(*persisted.mutable_snapshot_persisted());
    fill(*committed.mutable_snapshot_committed());
    for (const auto& event : {sealed, persisted, committed}) Feed(event);
  }
  void Copied(uint64_t step, const std::string& error = "", bool restoring = false) {
    proto::Event event = FromNode();
    if (error.empty()) {
      event.mutable_snapshot_copied()->set_job_id("gpt-1");
      event.mutable_snapshot_copied()->set_attempt(Status().attempt());
      event.mutable_snapshot_copied()->set_step(step);
    } else {
      proto::SnapshotFailed& failed = *event.mutable_snapshot_failed();
      failed.set_job_id("gpt-1");
      failed.set_attempt(Status().attempt());
      failed.set_step(step);
      failed.set_reason(error);
      failed.set_tier(proto::Restore::TIER_SHARED);
      failed.set_while_restoring(restoring);
    }
    Feed(event);
  }
  std::string Ordered() { return std::exchange(copied_, ""); }
  void EndWell() {
    proto::Event event = FromNode();
    event.mutable_worker_exited()->set_job_id("gpt-1");
    event.mutable_worker_exited()->set_attempt(Status().attempt());
    Feed(event);
  }

  Controller controller_;
  Instant now_ = InstantFromNanoseconds(1'000'000'000);
  uint64_t sequence_ = 0;
  proto::Job spec_;
  std::string copied_;
  proto::OpenStore open_;
  proto::StartWorkers start_;
  uint64_t spared_ = 0;
};

TEST_F(ControllerCopies, OrdersTheNewestOnceTheLastIsThere) {
  Submit();
  Open();
  Commit(10);
  EXPECT_EQ(Ordered(), "10 ");
  Commit(20);
  Commit(30);
  EXPECT_EQ(Ordered(), "");
  Copied(10);
  EXPECT_EQ(Ordered(), "30 ");
  EXPECT_EQ(Status().copied_step(), 10u);
  Copied(30, "no route");
  EXPECT_EQ(Ordered(), "") << "not the same again";
  Commit(40);
  EXPECT_EQ(Ordered(), "40 ");
}

// Slow copies and few checkpoints kept: none would ever arrive.
TEST_F(ControllerCopies, WhatIsBeingCopiedIsNotPruned) {
  Submit();
  Open();
  Commit(10);
  EXPECT_EQ(spared_, 0u);
  Commit(20);
  EXPECT_EQ(spared_, 10u);
  Copied(10);
  Commit(30);
  EXPECT_EQ(spared_, 20u);
}

TEST_F(ControllerCopies, EveryFewCommitsAndTheLastAlways) {
  spec_.mutable_snapshot()->set_copy_every(3);
  Submit();
  Open();
  Commit(10);
  Commit(20);
  EXPECT_EQ(Ordered(), "");
  Commit(30);
  EXPECT_EQ(Ordered(), "30 ");
  Copied(30);
  Commit(40);
  EXPECT_EQ(Ordered(), "");
  EndWell();
  EXPECT_EQ(Ordered(), "40 ");
  EXPECT_FALSE(IsTerminal(Status().state())) << "its last checkpoint is on its way";
  Copied(40);
  EXPECT_EQ(Status().state(), proto::SUCCEEDED);
}

TEST_F(ControllerCopies, AJobWhoseLastCopyFailsEndsAndSaysSo) {
  Submit();
  Open();
  Commit(10);
  EndWell();
  Copied(10, "no route");
  EXPECT_EQ(Status().state(), proto::SUCCEEDED);
  EXPECT_NE(Status().reason().find("not at /shared: no route"), std::string::npos)
      << Status().reason();
}

TEST_F(ControllerCopies, ANewerCopyThanTheDiskHasComesBackFirst) {
  spec_.set_committed_step(10);
  spec_.set_committed_attempt(1);
  for (const uint64_t step : {20u, 10u}) {
    auto& copy = *spec_.add_copies();
    copy.set_step(step);
    copy.set_attempt(step == 20 ? 4 : 1);
  }
  Submit();
  EXPECT_EQ(Status().attempt(), 5u) << "attempts name directories: none is used twice";
  EXPECT_EQ(open_.fetch().tier(), proto::Restore::TIER_SHARED);
  EXPECT_EQ(open_.fetch().step(), 20u);
  EXPECT_EQ(open_.fetch().saved_attempt(), 4u);
  EXPECT_EQ(open_.job().snapshot().copy_to(), "/shared");
  Open();
  EXPECT_EQ(start_.restore().tier(), proto::Restore::TIER_DISK);
  EXPECT_EQ(start_.restore().step(), 20u);
  EXPECT_EQ(start_.restore().saved_attempt(), 4u);
}

TEST_F(ControllerCopies, ACopyThatIsNoGoodIsNotOfferedAgain) {
  for (const uint64_t step : {20u, 10u}) {
    auto& copy = *spec_.add_copies();
    copy.set_step(step);
    copy.set_attempt(1);
  }
  Submit();
  EXPECT_EQ(open_.fetch().step(), 20u);
  Copied(20, "the hash differs", /*restoring=*/true);
  EXPECT_EQ(Status().attempt(), 3u);
  EXPECT_EQ(open_.fetch().step(), 10u);
  EXPECT_EQ(Status().faults(0).class_name(), "storage");
}

}  // namespace
}  // namespace longhaul::runtime
