// Which step the controller has written to disk.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/controller.h"

namespace longhaul::runtime {
namespace {

// Two nodes with one rank each, every rank with a state of its own.
class ControllerPersist : public ::testing::Test {
 protected:
  ControllerPersist() : controller_(ControllerOptions{}) {
    wire::Event event;
    event.mutable_controller_started();
    Feed(event);
    Join("node-1", 1);
    Join("node-2", 1);
    wire::Event submitted;
    wire::Job& job = *submitted.mutable_job_submitted()->mutable_job();
    job.set_id("gpt-1");
    job.set_nodes(2);
    job.set_processes_per_node(1);
    job.mutable_workload()->set_built_in(true);
    job.set_total_steps(1000);
    job.set_max_restarts(10);
    job.mutable_snapshot()->set_keep(2);
    Feed(submitted);
    Start();
    Told();
  }

  void Feed(const wire::Event& event) {
    for (const auto& [node, command] : controller_.Step(event, now_).commands) {
      if (command.has_persist_snapshot()) {
        const auto& told = command.persist_snapshot();
        told_ += node.value() + ":" + std::to_string(told.step()) + ".e" +
                 std::to_string(told.epoch()) + " ";
      }
      if (command.has_commit_snapshot()) granted_ = command.commit_snapshot().step();
    }
    EXPECT_TRUE(controller_.CheckInvariants().ok()) << controller_.CheckInvariants();
  }
  // Who was told to write what since the last call.
  std::string Told() { return std::exchange(told_, ""); }

  wire::Event From(const std::string& node) {
    wire::Event event;
    event.set_node(node);
    event.set_incarnation(life_[node]);
    event.set_sequence(++sequence_[node]);
    event.set_at_ns(ToNanoseconds(now_));
    return event;
  }
  void Join(const std::string& node, uint64_t life) {
    if (life_[node] != life) sequence_[node] = 0;
    life_[node] = life;
    wire::Event event = From(node);
    event.mutable_agent_joined()->set_slots(1);
    event.mutable_agent_joined()->set_address("127.0.0.1");
    Feed(event);
  }
  uint64_t Epoch() { return controller_.JobStatus(JobId("gpt-1"), now_)->epoch(); }
  void Start() {
    wire::Event opened = From("node-1");
    opened.mutable_store_opened()->set_job_id("gpt-1");
    opened.mutable_store_opened()->set_epoch(Epoch());
    opened.mutable_store_opened()->set_port(4000);
    Feed(opened);
  }
  void Seal(const std::string& node, uint64_t step) {
    wire::Event event = From(node);
    event.mutable_snapshot_sealed()->set_job_id("gpt-1");
    event.mutable_snapshot_sealed()->set_epoch(Epoch());
    event.mutable_snapshot_sealed()->set_step(step);
    Feed(event);
  }
  void SealAll(uint64_t step) {
    Seal("node-1", step);
    Seal("node-2", step);
  }
  void Persist(const std::string& node, uint64_t step) {
    wire::Event event = From(node);
    event.mutable_snapshot_persisted()->set_job_id("gpt-1");
    event.mutable_snapshot_persisted()->set_epoch(1);
    event.mutable_snapshot_persisted()->set_step(step);
    Feed(event);
  }
  void Fail(const std::string& node, uint64_t step, bool overtaken) {
    wire::Event event = From(node);
    wire::SnapshotFailed& failed = *event.mutable_snapshot_failed();
    failed.set_job_id("gpt-1");
    failed.set_epoch(1);
    failed.set_step(step);
    failed.set_reason("disk full");
    failed.set_tier(wire::Restore::TIER_DISK);
    failed.set_overtaken(overtaken);
    Feed(event);
  }
  void Disconnect(const std::string& node) {
    wire::Event gone;
    gone.set_node(node);
    gone.set_incarnation(life_[node]);
    gone.mutable_agent_disconnected()->set_reason("reset");
    Feed(gone);
  }

  Controller controller_;
  Instant now_ = InstantFromNanoseconds(1'000'000'000);
  std::map<std::string, uint64_t> life_;
  std::map<std::string, uint64_t> sequence_;
  std::string told_;
  uint64_t granted_ = 0;
};

TEST_F(ControllerPersist, NamesAStepOnceEveryNodeHasIt) {
  Seal("node-1", 10);
  EXPECT_EQ(Told(), "");
  Seal("node-2", 10);
  EXPECT_EQ(Told(), "node-1:10.e1 node-2:10.e1 ");
}

// The disk of node 2 is slow: node 1 waits for it instead of writing what node 2 never will.
TEST_F(ControllerPersist, NamesTheNewestOnceAllHaveWrittenTheLast) {
  SealAll(10);
  Told();
  SealAll(11);
  Persist("node-1", 10);
  SealAll(12);
  SealAll(13);
  EXPECT_EQ(Told(), "");
  Persist("node-2", 10);
  EXPECT_EQ(Told(), "node-1:13.e1 node-2:13.e1 ");
  EXPECT_EQ(granted_, 10u);
}

TEST_F(ControllerPersist, AFailureEndsAnOrderAndTheStepIsNotNamedAgain) {
  SealAll(10);
  Told();
  Fail("node-2", 10, false);
  EXPECT_EQ(Told(), "");
  SealAll(11);
  EXPECT_EQ(Told(), "node-1:11.e1 node-2:11.e1 ");
  SealAll(12);
  Fail("node-1", 11, true);
  EXPECT_EQ(Told(), "node-1:12.e1 node-2:12.e1 ");
  Fail("node-1", 10, true);
  EXPECT_EQ(Told(), "") << "of an order that is over";
}

// It doesn't know the message and has taken a newer step: nobody waits for it.
TEST_F(ControllerPersist, AnOlderAgentThatPassesOverTheStepEndsTheOrder) {
  SealAll(10);
  Persist("node-1", 10);
  SealAll(11);
  Told();
  Persist("node-2", 11);
  EXPECT_EQ(Told(), "node-1:11.e1 ") << "node 2 has written its part";
  Persist("node-1", 11);
  EXPECT_EQ(granted_, 11u);
}

TEST_F(ControllerPersist, AnAgentThatWasAwayIsToldAgain) {
  SealAll(10);
  Persist("node-1", 10);
  Told();
  Disconnect("node-2");
  Join("node-2", 1);
  EXPECT_EQ(Told(), "node-2:10.e1 ");
  Disconnect("node-1");
  Join("node-1", 1);
  EXPECT_EQ(Told(), "") << "it has written its part";
}

// What the lost node had in memory is gone: the step will never be whole.
TEST_F(ControllerPersist, ALostNodeEndsAnOrder) {
  SealAll(10);
  Persist("node-1", 10);
  Told();
  Disconnect("node-2");
  Join("node-2", 2);
  Start();
  EXPECT_EQ(Epoch(), 2u);
  EXPECT_EQ(Told(), "");
  SealAll(1);
  EXPECT_EQ(Told(), "node-1:1.e2 node-2:1.e2 ");
}

}  // namespace
}  // namespace longhaul::runtime
