// Which step the controller has written to disk.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/controller/controller.h"

namespace longhaul::runtime {
namespace {

// Two nodes with one rank each, every rank with a state of its own.
class ControllerPersist : public ::testing::Test {
 protected:
  explicit ControllerPersist(uint32_t ranks = 1) : controller_(ControllerOptions{}), ranks_(ranks) {
    proto::Event event;
    event.mutable_controller_started();
    Feed(event);
    Join("node-1", 1);
    Join("node-2", 1);
    proto::Event submitted;
    proto::Job& job = *submitted.mutable_job_submitted()->mutable_job();
    job.set_id("gpt-1");
    job.set_nodes(2);
    job.set_processes_per_node(ranks_);
    job.mutable_workload()->set_built_in(true);
    job.set_total_steps(1000);
    job.set_max_restarts(10);
    job.mutable_snapshot()->set_keep(2);
    Feed(submitted);
    Start();
    PersistCommands();
  }

  void Feed(const proto::Event& event) {
    for (const auto& [node, command] : controller_.Step(event, now_).commands) {
      if (command.has_persist_snapshot()) {
        const auto& want = command.persist_snapshot();
        commands_ += node.value() + ":" + std::to_string(want.step()) + ".e" +
                     std::to_string(want.attempt());
        for (const uint32_t rank : want.ranks()) commands_ += "[" + std::to_string(rank) + "]";
        commands_ += " ";
      }
      if (command.has_commit_snapshot()) {
        grant_ = command.commit_snapshot();
        granted_ = grant_.step();
        granted_to_ += node.value() + " ";
      }
    }
    EXPECT_TRUE(controller_.CheckInvariants().ok()) << controller_.CheckInvariants();
  }
  // The nodes that were ordered to write since the last call, and what.
  std::string PersistCommands() { return std::exchange(commands_, ""); }

  proto::Event From(const std::string& node) {
    proto::Event event;
    event.set_node(node);
    event.set_incarnation(life_[node]);
    event.set_sequence(++sequence_[node]);
    event.set_at_ns(ToNanoseconds(now_));
    return event;
  }
  void Join(const std::string& node, uint64_t life) {
    if (life_[node] != life) sequence_[node] = 0;
    life_[node] = life;
    proto::Event event = From(node);
    event.mutable_agent_joined()->set_slots(ranks_);
    event.mutable_agent_joined()->set_address("127.0.0.1");
    Feed(event);
  }
  uint64_t Attempt() { return controller_.JobStatus(JobId("gpt-1"), now_)->attempt(); }
  void Start() {
    proto::Event opened = From("node-1");
    opened.mutable_store_opened()->set_job_id("gpt-1");
    opened.mutable_store_opened()->set_attempt(Attempt());
    opened.mutable_store_opened()->set_port(4000);
    Feed(opened);
  }
  void Seal(const std::string& node, uint64_t step) {
    proto::Event event = From(node);
    event.mutable_snapshot_sealed()->set_job_id("gpt-1");
    event.mutable_snapshot_sealed()->set_attempt(Attempt());
    event.mutable_snapshot_sealed()->set_step(step);
    Feed(event);
  }
  void SealAll(uint64_t step) {
    Seal("node-1", step);
    Seal("node-2", step);
  }
  void Persist(const std::string& node, uint64_t step) {
    proto::Event event = From(node);
    event.mutable_snapshot_persisted()->set_job_id("gpt-1");
    event.mutable_snapshot_persisted()->set_attempt(1);
    event.mutable_snapshot_persisted()->set_step(step);
    Feed(event);
  }
  void Fail(const std::string& node, uint64_t step, bool overtaken) {
    proto::Event event = From(node);
    proto::SnapshotFailed& failed = *event.mutable_snapshot_failed();
    failed.set_job_id("gpt-1");
    failed.set_attempt(1);
    failed.set_step(step);
    failed.set_reason("disk full");
    failed.set_tier(proto::Restore::TIER_DISK);
    failed.set_overtaken(overtaken);
    Feed(event);
  }
  void Commit(uint64_t step) {
    proto::Event event = From("node-2");
    event.mutable_snapshot_committed()->set_job_id("gpt-1");
    event.mutable_snapshot_committed()->set_attempt(1);
    event.mutable_snapshot_committed()->set_step(step);
    Feed(event);
  }
  // Checkpoints are missing. Returns what the job's messages say.
  std::string Lose(const std::vector<uint64_t>& steps) {
    proto::Event event = From("node-2");
    event.mutable_checkpoints_lost()->set_job_id("gpt-1");
    event.mutable_checkpoints_lost()->set_folder("runs/gpt/checkpoints");
    for (const uint64_t step : steps) {
      auto* lost = event.mutable_checkpoints_lost()->add_lost();
      lost->set_step(step);
      lost->set_attempt(Attempt());
    }
    const Actions actions = controller_.Step(event, now_);
    EXPECT_TRUE(controller_.CheckInvariants().ok()) << controller_.CheckInvariants();
    std::string want;
    for (const proto::Notification& notification : actions.notifications)
      want += notification.message().text();
    return want;
  }
  // All ranks end, with nothing to say.
  void EndWell() {
    for (const uint32_t node : {0u, 1u}) {
      for (uint32_t i = 0; i < ranks_; ++i) {
        proto::Event event = From("node-" + std::to_string(node + 1));
        event.mutable_worker_exited()->set_job_id("gpt-1");
        event.mutable_worker_exited()->set_attempt(Attempt());
        event.mutable_worker_exited()->set_rank(node * ranks_ + i);
        Feed(event);
      }
      proto::Event closed = From("node-" + std::to_string(node + 1));
      closed.mutable_attempt_closed()->set_job_id("gpt-1");
      closed.mutable_attempt_closed()->set_attempt(Attempt());
      Feed(closed);
    }
  }
  proto::JobState State() { return controller_.JobStatus(JobId("gpt-1"), now_)->state(); }
  std::string Reason() { return controller_.JobStatus(JobId("gpt-1"), now_)->reason(); }
  void Disconnect(const std::string& node) {
    proto::Event gone;
    gone.set_node(node);
    gone.set_incarnation(life_[node]);
    gone.mutable_agent_disconnected()->set_reason("reset");
    Feed(gone);
  }

  Controller controller_;
  Instant now_ = InstantFromNanoseconds(1'000'000'000);
  std::map<std::string, uint64_t> life_;
  std::map<std::string, uint64_t> sequence_;
  std::string commands_;
  proto::CommitSnapshot grant_;
  uint64_t granted_ = 0;
  std::string granted_to_;
  const uint32_t ranks_;
};

TEST_F(ControllerPersist, NamesAStepOnceEveryNodeHasIt) {
  Seal("node-1", 10);
  EXPECT_EQ(PersistCommands(), "");
  Seal("node-2", 10);
  EXPECT_EQ(PersistCommands(), "node-1:10.e1 node-2:10.e1 ");
}

TEST_F(ControllerPersist, ACommitPassesToAnotherNodeWhenItsCommitterIsLost) {
  SealAll(10);
  Persist("node-1", 10);
  Persist("node-2", 10);
  EXPECT_EQ(granted_to_, "node-2 ");
  Disconnect("node-2");
  EXPECT_EQ(granted_to_, "node-2 ") << "it may come back";
  for (int i = 0; i < 100 && controller_.NextDeadline().has_value(); ++i) {
    now_ = *controller_.NextDeadline();
    proto::Event tick;
    tick.mutable_tick();
    Feed(tick);
    if (granted_to_ != "node-2 ") break;
  }
  EXPECT_EQ(granted_to_, "node-2 node-1 ");
}

// The committer may have written the manifest, but the job has gone back and computes the step
// again: with other bits, if the program is not deterministic.
TEST_F(ControllerPersist, ACommitAfterTheJobHasGoneBackIsNoCheckpoint) {
  for (const uint64_t step : {10u, 20u}) {
    SealAll(step);
    Persist("node-1", step);
    Persist("node-2", step);
    ASSERT_EQ(granted_, step);
    if (step == 10) Commit(step);
  }
  EXPECT_EQ(grant_.committed_step(), 10u);
  Disconnect("node-2");
  Join("node-2", 2);
  Start();
  PersistCommands();
  Commit(20);
  EXPECT_EQ(controller_.JobStatus(JobId("gpt-1"), now_)->committed_step(), 10u);
  SealAll(20);
  EXPECT_EQ(PersistCommands(), "node-1:20.e2 node-2:20.e2 ");
}

// The disk of node 2 is slow: node 1 waits for it instead of writing what node 2 never will.
TEST_F(ControllerPersist, NamesTheNewestOnceAllHaveWrittenTheLast) {
  SealAll(10);
  PersistCommands();
  SealAll(11);
  Persist("node-1", 10);
  SealAll(12);
  SealAll(13);
  EXPECT_EQ(PersistCommands(), "");
  Persist("node-2", 10);
  EXPECT_EQ(PersistCommands(), "node-1:13.e1 node-2:13.e1 ");
  EXPECT_EQ(granted_, 10u);
}

TEST_F(ControllerPersist, AFailureEndsAnOrderAndTheStepIsNotNamedAgain) {
  SealAll(10);
  PersistCommands();
  Fail("node-2", 10, false);
  EXPECT_EQ(PersistCommands(), "");
  SealAll(11);
  EXPECT_EQ(PersistCommands(), "node-1:11.e1 node-2:11.e1 ");
  SealAll(12);
  Fail("node-1", 11, true);
  EXPECT_EQ(PersistCommands(), "node-1:12.e1 node-2:12.e1 ");
  Fail("node-1", 10, true);
  EXPECT_EQ(PersistCommands(), "") << "of an order that is over";
}

// It doesn't know the message and has taken a newer step: nobody waits for it.
TEST_F(ControllerPersist, AnOlderAgentThatPassesOverTheStepEndsTheOrder) {
  SealAll(10);
  Persist("node-1", 10);
  SealAll(11);
  PersistCommands();
  Persist("node-2", 11);
  EXPECT_EQ(PersistCommands(), "node-1:11.e1 ") << "node 2 has written its part";
  Persist("node-1", 11);
  EXPECT_EQ(granted_, 11u);
}

TEST_F(ControllerPersist, AnAgentThatWasAwayReceivesTheOrderAgain) {
  SealAll(10);
  Persist("node-1", 10);
  PersistCommands();
  Disconnect("node-2");
  Join("node-2", 1);
  EXPECT_EQ(PersistCommands(), "node-2:10.e1 ");
  Disconnect("node-1");
  Join("node-1", 1);
  EXPECT_EQ(PersistCommands(), "") << "it has written its part";
}

TEST_F(ControllerPersist, AFailureOfAnOlderSnapshotIsNoReasonAtTheEnd) {
  SealAll(10);
  Fail("node-2", 10, false);
  SealAll(11);
  EndWell();
  ASSERT_FALSE(IsTerminal(State())) << "step 11 is being written: " << Reason();
  Persist("node-1", 11);
  Persist("node-2", 11);
  Commit(11);
  EXPECT_EQ(State(), proto::SUCCEEDED);
  EXPECT_EQ(Reason().find("disk full"), std::string::npos) << Reason();
}

// No newer one will follow, so it is ordered once more.
TEST_F(ControllerPersist, AFailureThatPassesIsNoReasonAtTheEnd) {
  SealAll(10);
  Persist("node-1", 10);
  Fail("node-2", 10, false);
  EndWell();
  ASSERT_FALSE(IsTerminal(State())) << Reason();
  EXPECT_EQ(PersistCommands(), "node-1:10.e1 node-2:10.e1 node-2:10.e1 ");
  Persist("node-2", 10);
  EXPECT_EQ(granted_, 10u);
  Commit(10);
  EXPECT_EQ(State(), proto::SUCCEEDED);
  EXPECT_EQ(Reason().find("disk full"), std::string::npos) << Reason();
}

TEST_F(ControllerPersist, ALastFailureOfTheNewestIsTheReasonAtOnce) {
  SealAll(10);
  Persist("node-1", 10);
  Fail("node-2", 10, false);
  EndWell();
  Fail("node-2", 10, false);
  EXPECT_EQ(State(), proto::FAILED);
  EXPECT_NE(Reason().find("step 10, is not on disk: disk full"), std::string::npos) << Reason();
}

TEST_F(ControllerPersist, AStepThatIsNoLongerInMemoryIsNotAwaitedAtTheEnd) {
  SealAll(10);
  Persist("node-2", 10);
  Fail("node-1", 10, /*overtaken=*/true);
  EndWell();
  ASSERT_FALSE(IsTerminal(State())) << "it is ordered once more: " << Reason();
  Fail("node-1", 10, /*overtaken=*/true);
  EXPECT_EQ(State(), proto::FAILED);
  EXPECT_NE(Reason().find("step 10, is not on disk: disk full"), std::string::npos) << Reason();
}

// An arena has three slots.
TEST_F(ControllerPersist, AStepThatANodeHasOverwrittenWhenTheOtherHasItIsNotAwaitedAtTheEnd) {
  for (uint64_t step = 10; step <= 20; ++step) Seal("node-2", step);
  Seal("node-1", 10);
  EXPECT_EQ(PersistCommands(), "");
  EndWell();
  EXPECT_EQ(State(), proto::FAILED);
  EXPECT_NE(Reason().find("step 10, is not on disk: it is not in the memory of"), std::string::npos)
      << Reason();
}

TEST_F(ControllerPersist, AManifestThatCanNotBeWrittenIsTheReasonAtOnce) {
  SealAll(10);
  Persist("node-1", 10);
  Persist("node-2", 10);
  Fail("node-2", 10, false);
  EndWell();
  EXPECT_EQ(State(), proto::FAILED);
  EXPECT_NE(Reason().find("disk full"), std::string::npos) << Reason();
}

// Two nodes with two ranks each. Letters: ranks with the same one hold the same state.
class ControllerShares : public ControllerPersist {
 protected:
  ControllerShares() : ControllerPersist(2) {}

  void SealAs(uint64_t step, const std::string& letters) {
    for (const int node : {0, 1}) {
      proto::Event event = From("node-" + std::to_string(node + 1));
      proto::SnapshotSealed& sealed = *event.mutable_snapshot_sealed();
      sealed.set_job_id("gpt-1");
      sealed.set_attempt(Attempt());
      sealed.set_step(step);
      for (const char letter : letters.substr(static_cast<size_t>(node) * 2, 2)) {
        proto::RankContent& content = *sealed.add_contents();
        content.set_plan(1);
        content.set_root(static_cast<uint64_t>(letter));
        content.set_bytes(1000);
      }
      Feed(event);
    }
  }
  void PersistRanks(const std::string& node, uint64_t step, const std::vector<uint32_t>& ranks) {
    proto::Event event = From(node);
    proto::SnapshotPersisted& persisted = *event.mutable_snapshot_persisted();
    persisted.set_job_id("gpt-1");
    persisted.set_attempt(Attempt());
    persisted.set_step(step);
    for (const uint32_t rank : ranks) persisted.add_files()->set_rank(rank);
    Feed(event);
  }
  // "0+2 3+1": the files of the newest grant, with the ranks that each serves too.
  std::string Files() const {
    std::string text;
    for (const auto& file : grant_.files()) {
      text += (text.empty() ? "" : " ") + std::to_string(file.rank());
      for (const uint32_t rank : file.also()) text += "+" + std::to_string(rank);
    }
    return text;
  }
};

TEST_F(ControllerShares, ReplicasAreWrittenOnceAndEachNodeWritesItsShare) {
  const struct {
    const char* what;
    const char* letters;
    const char* want;
    std::vector<uint32_t> first, second;
    const char* files;
  } kRows[] = {
      {"dp=2, tp=2", "abab", "node-1:STEP.e1[0] node-2:STEP.e1[3] ", {0}, {3}, "0+2 3+1"},
      {"dp=2, pp=2", "aabb", "node-1:STEP.e1[0] node-2:STEP.e1[2] ", {0}, {2}, "0+1 2+3"},
      {"dp=4", "aaaa", "node-1:STEP.e1[0] ", {0}, {}, "0+1+2+3"},
      {"tp=4", "abcd", "node-1:STEP.e1 node-2:STEP.e1 ", {0, 1}, {2, 3}, "0 1 2 3"},
      {"gone apart", "abac", "node-1:STEP.e1 node-2:STEP.e1[3] ", {0, 1}, {3}, "0+2 1 3"},
  };
  uint64_t step = 0;
  for (const auto& row : kRows) {
    step += 10;
    SealAs(step, row.letters);
    std::string want = row.want;
    while (want.find("STEP") != std::string::npos) {
      want.replace(want.find("STEP"), 4, std::to_string(step));
    }
    EXPECT_EQ(PersistCommands(), want) << row.what;
    if (!row.second.empty()) {
      PersistRanks("node-2", step, row.second);
      EXPECT_LT(granted_, step) << row.what;
    }
    PersistRanks("node-1", step, row.first);
    EXPECT_EQ(granted_, step) << row.what;
    EXPECT_EQ(Files(), row.files) << row.what;
    proto::Event committed = From("node-1");
    committed.mutable_snapshot_committed()->set_job_id("gpt-1");
    committed.mutable_snapshot_committed()->set_attempt(1);
    committed.mutable_snapshot_committed()->set_step(step);
    Feed(committed);
  }
}

// While it is written, memories move on: what is known of its ranks is not forgotten.
TEST_F(ControllerShares, ASlowDiskIsWaitedForWhateverIsSealedMeanwhile) {
  SealAs(10, "abab");
  for (uint64_t step = 11; step < 40; ++step) SealAs(step, "abab");
  PersistRanks("node-2", 10, {3});
  PersistRanks("node-1", 10, {0});
  EXPECT_EQ(granted_, 10u);
  EXPECT_EQ(Files(), "0+2 3+1");
}

// The node that was to write a piece dies: its order is closed, the next attempt names another
// step.
TEST_F(ControllerShares, AWriterThatIsLostEndsTheOrder) {
  SealAs(10, "abab");
  PersistCommands();
  PersistRanks("node-1", 10, {0});
  Disconnect("node-2");
  Join("node-2", 2);
  Start();
  EXPECT_EQ(granted_, 0u);
  EXPECT_EQ(PersistCommands(), "");
  SealAs(12, "abab");
  EXPECT_EQ(PersistCommands(), "node-1:12.e2[0] node-2:12.e2[3] ");
  PersistRanks("node-1", 12, {0});
  PersistRanks("node-2", 12, {3});
  EXPECT_EQ(granted_, 12u);
}

// It has no share, so nobody waits for it.
TEST_F(ControllerShares, ANodeWithoutAShareMayDie) {
  SealAs(10, "aaaa");
  Disconnect("node-2");
  PersistRanks("node-1", 10, {0});
  EXPECT_EQ(granted_, 10u);
}

// Agents that end write all they have, asked or not.
TEST_F(ControllerShares, MoreThanWasAskedForIsFine) {
  SealAs(10, "abab");
  PersistRanks("node-1", 10, {0, 1});
  EXPECT_EQ(granted_, 0u) << "as far as is known node 2 still writes";
  PersistRanks("node-2", 10, {2, 3});
  EXPECT_EQ(granted_, 10u);
  EXPECT_EQ(Files(), "0 1 2 3");
}

TEST_F(ControllerShares, ADiskThatFailsEndsTheOrder) {
  SealAs(10, "abab");
  PersistCommands();
  PersistRanks("node-1", 10, {0});
  Fail("node-2", 10, false);
  SealAs(11, "abab");
  EXPECT_EQ(PersistCommands(), "node-1:11.e1[0] node-2:11.e1[3] ");
}

// What the lost node had in memory is gone: the step will never be whole.
TEST_F(ControllerPersist, ALostNodeEndsAnOrder) {
  SealAll(10);
  Persist("node-1", 10);
  PersistCommands();
  Disconnect("node-2");
  Join("node-2", 2);
  Start();
  EXPECT_EQ(Attempt(), 2u);
  EXPECT_EQ(PersistCommands(), "");
  SealAll(1);
  EXPECT_EQ(PersistCommands(), "node-1:1.e2 node-2:1.e2 ");
}

// Restoring from a checkpoint that is gone would cost a fault.
// Agents remove old checkpoints with a commit, and another agent may look for them before the
// commit's report has come.
TEST_F(ControllerPersist, WhatACommitUnderWayRemovesIsNotMissing) {
  for (const uint64_t step : {10u, 20u, 30u}) {
    SealAll(step);
    Persist("node-1", step);
    Persist("node-2", step);
    ASSERT_EQ(granted_, step);
    if (step < 30) Commit(step);
  }
  EXPECT_EQ(Lose({10}), "");
  EXPECT_NE(Lose({20}).find("step 20; the newest checkpoint that is left is of step 10"),
            std::string::npos);
  Commit(30);
  EXPECT_EQ(controller_.JobStatus(JobId("gpt-1"), now_)->committed_step(), 30u);
}

TEST_F(ControllerPersist, RemovedCheckpointsAreNotOfferedAndTheNextIsSaved) {
  const auto save = [this](uint64_t step) {
    SealAll(step);
    Persist("node-1", step);
    Persist("node-2", step);
    Commit(step);
  };
  save(10);
  save(20);
  ASSERT_EQ(controller_.JobStatus(JobId("gpt-1"), now_)->committed_step(), 20u);
  PersistCommands();
  EXPECT_EQ(Lose({20}),
            "checkpoints have been removed from runs/gpt/checkpoints while the job runs: step 20; "
            "the newest checkpoint that is left is of step 10");
  EXPECT_EQ(controller_.JobStatus(JobId("gpt-1"), now_)->committed_step(), 10u);
  EXPECT_EQ(Lose({20, 99}), "") << "the same again";
  EXPECT_NE(Lose({10}).find("no checkpoint is left"), std::string::npos);
  EXPECT_EQ(controller_.JobStatus(JobId("gpt-1"), now_)->committed_step(), 0u);
  SealAll(30);
  EXPECT_EQ(PersistCommands(), "node-1:30.e1 node-2:30.e1 ");
}

}  // namespace
}  // namespace longhaul::runtime
