// A new agent tells what the one before it left in memory: what a job is restored from then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/controller/cluster_fixture.h"
#include "runtime/controller/controller.h"

namespace longhaul::runtime::adoption_test {
namespace {

using std::chrono::seconds;

struct Held {
  uint32_t rank = 0;
  uint64_t step = 0;
  uint64_t attempt = 1;
  bool copy = false;
  std::string job = "gpt-1";
};

// Two nodes with two ranks each, every rank with a state of its own, at step 20 of attempt 1.
class Cluster {
 public:
  Cluster() : controller_(ControllerOptions{}) {
    proto::Event event;
    event.mutable_controller_started();
    Feed(event);
    Join("node-1", 1);
    Join("node-2", 1);
    proto::Event submitted;
    proto::Job& job = *submitted.mutable_job_submitted()->mutable_job();
    job = controller_testing::TwoByTwo();
    job.mutable_snapshot()->set_replicated(false);
    Feed(submitted);
    Start();
  }

  void Feed(const proto::Event& event) {
    for (const auto& [node, command] : controller_.Step(event, now_).commands) {
      commands_.emplace_back(node.value(), command);
    }
    EXPECT_TRUE(controller_.CheckInvariants().ok()) << controller_.CheckInvariants();
  }
  proto::Event From(const std::string& node) {
    proto::Event event;
    event.set_node(node);
    event.set_incarnation(life_[node]);
    event.set_sequence(++sequence_[node]);
    event.set_at_ns(ToNanoseconds(now_));
    return event;
  }
  void Join(const std::string& node, uint64_t life, const std::vector<Held>& held = {}) {
    life_[node] = life;
    sequence_[node] = 0;
    proto::Event event = From(node);
    proto::AgentJoined& joined = *event.mutable_agent_joined();
    joined.set_slots(2);
    joined.set_address("127.0.0.1");
    joined.set_peer_port(7000);
    for (const Held& each : held) {
      auto& one = *joined.add_held();
      one.set_job_id(each.job);
      one.set_rank(each.rank);
      one.set_step(each.step);
      one.set_attempt(each.attempt);
      one.set_copy(each.copy);
    }
    Feed(event);
  }
  void Start() {
    proto::Event opened = From("node-1");
    opened.mutable_store_opened()->set_job_id("gpt-1");
    opened.mutable_store_opened()->set_attempt(Job().attempt());
    opened.mutable_store_opened()->set_port(4000);
    Feed(opened);
    for (const char* node : {"node-1", "node-2"}) {
      proto::Event started = From(node);
      started.mutable_workers_started()->set_job_id("gpt-1");
      started.mutable_workers_started()->set_attempt(Job().attempt());
      Feed(started);
    }
  }
  void Seal(const std::string& node, uint64_t step, bool non_finite = false) {
    proto::Event event = From(node);
    event.mutable_snapshot_sealed()->set_job_id("gpt-1");
    event.mutable_snapshot_sealed()->set_attempt(Job().attempt());
    event.mutable_snapshot_sealed()->set_step(step);
    event.mutable_snapshot_sealed()->set_non_finite(non_finite);
    Feed(event);
  }
  void Copy(const std::string& of, uint64_t step, const std::string& at) {
    proto::Event event = From(at);
    event.mutable_copy_received()->set_job_id("gpt-1");
    event.mutable_copy_received()->set_attempt(Job().attempt());
    event.mutable_copy_received()->set_step(step);
    event.mutable_copy_received()->set_first_rank(of == "node-1" ? 0 : 2);
    event.mutable_copy_received()->set_ranks(2);
    Feed(event);
  }
  void Persist(const std::string& node, uint64_t step) {
    proto::Event event = From(node);
    event.mutable_snapshot_persisted()->set_job_id("gpt-1");
    event.mutable_snapshot_persisted()->set_attempt(1);
    event.mutable_snapshot_persisted()->set_step(step);
    Feed(event);
  }
  void Pass(Duration duration) {
    now_ += duration;
    proto::Event tick;
    tick.mutable_tick();
    Feed(tick);
  }
  // The agent is killed; another takes its name while the stream's end is fresh, or long after.
  void Replace(const std::string& node, const std::vector<Held>& held, bool late = false) {
    proto::Event gone;
    gone.set_node(node);
    gone.set_incarnation(life_[node]);
    gone.mutable_agent_disconnected()->set_reason("reset");
    Feed(gone);
    if (late) Pass(seconds(3));
    Join(node, life_[node] + 1, held);
    Start();
  }

  proto::JobStatus Job() const { return *controller_.JobStatus(JobId("gpt-1"), now_); }
  proto::Restore RestoreOf(const std::string& node) const {
    proto::Restore restore;
    for (const auto& [to, command] : commands_) {
      if (to == node && command.has_start_workers()) restore = command.start_workers().restore();
    }
    return restore;
  }
  int Count(const std::string& node, bool (proto::Command::*has)() const) const {
    int count = 0;
    for (const auto& [to, command] : commands_) count += to == node && (command.*has)() ? 1 : 0;
    return count;
  }

 private:
  Controller controller_;
  Instant now_ = InstantFromNanoseconds(1'000'000'000);
  std::map<std::string, uint64_t> life_, sequence_;
  std::vector<std::pair<std::string, proto::Command>> commands_;
};

TEST(Adoption, AKilledAgentsMemoryServesWhenTheNextOneHasIt) {
  for (const bool late : {false, true}) {
    Cluster cluster;
    for (const char* node : {"node-1", "node-2"}) cluster.Seal(node, 20);
    cluster.Replace("node-2", {{2, 20}, {3, 20}, {2, 10}, {3, 10}}, late);
    EXPECT_EQ(cluster.RestoreOf("node-2").step(), 20u) << late;
    EXPECT_EQ(cluster.RestoreOf("node-2").tier(), proto::Restore::TIER_MEMORY);
    EXPECT_EQ(cluster.RestoreOf("node-1").tier(), proto::Restore::TIER_MEMORY);
  }
}

TEST(Adoption, ASealThatDiedWithItsAgentStillCompletesTheStep) {
  Cluster cluster;
  for (const char* node : {"node-1", "node-2"}) cluster.Seal(node, 10);
  cluster.Seal("node-1", 20);
  cluster.Replace("node-2", {{2, 20}, {3, 20}, {2, 10}, {3, 10}});
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 20u);
}

TEST(Adoption, AStepThatOneRankLacksIsNotThere) {
  Cluster cluster;
  for (const char* node : {"node-1", "node-2"}) cluster.Seal(node, 10);
  for (const char* node : {"node-1", "node-2"}) cluster.Seal(node, 20);
  cluster.Replace("node-2", {{2, 20}, {2, 10}, {3, 10}});
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 10u);
  EXPECT_EQ(cluster.RestoreOf("node-1").step(), 10u) << "all the same step";
}

TEST(Adoption, ANonFiniteSnapshotIsNotGoneBackTo) {
  Cluster cluster;
  for (const char* node : {"node-1", "node-2"}) cluster.Seal(node, 10);
  cluster.Seal("node-1", 20);
  cluster.Seal("node-2", 20, true);
  cluster.Replace("node-2", {{2, 10}, {3, 10}});
  EXPECT_EQ(cluster.RestoreOf("node-1").step(), 10u);
}

TEST(Adoption, OtherRanksSnapshotsAreNotItsOwn) {
  Cluster cluster;
  for (const char* node : {"node-1", "node-2"}) cluster.Seal(node, 20);
  cluster.Replace("node-2", {{0, 20}, {1, 20}});
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), proto::Restore::TIER_NONE);
}

// Attempt 2 went back to step 10: what attempt 1 sealed after 20 is of a history that didn't
// happen.
TEST(Adoption, WhatWasRolledBackIsNotTaken) {
  Cluster cluster;
  for (const char* node : {"node-1", "node-2"}) cluster.Seal(node, 10);
  cluster.Replace("node-1", {{0, 10}, {1, 10}});
  ASSERT_EQ(cluster.RestoreOf("node-1").step(), 10u);
  cluster.Seal("node-1", 20);
  cluster.Seal("node-1", 20);
  cluster.Replace("node-2", {{2, 20, 1}, {3, 20, 1}, {2, 10, 1}, {3, 10, 1}});
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 10u);
  cluster.Replace("node-2", {{2, 20, 9}, {3, 20, 9}});
  // It was lost twice in a row, and is taken back only because there is no other.
  cluster.Pass(seconds(11));
  cluster.Start();
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), proto::Restore::TIER_NONE) << "no such attempt yet";
}

TEST(Adoption, CopiesForOthersAreAdoptedToo) {
  Cluster cluster;
  for (const char* node : {"node-1", "node-2"}) cluster.Seal(node, 10);
  cluster.Copy("node-2", 10, "node-1");
  cluster.Copy("node-1", 10, "node-2");
  cluster.Replace("node-1", {{0, 10}, {1, 10}, {2, 10, 1, true}, {3, 10, 1, true}});
  cluster.Replace("node-2", {});
  EXPECT_EQ(cluster.RestoreOf("node-2").step(), 10u);
  EXPECT_EQ(cluster.RestoreOf("node-2").tier(), proto::Restore::TIER_PEER);
}

TEST(Adoption, WhatBelongsToNoJobIsReleased) {
  Cluster cluster;
  cluster.Replace("node-2", {{0, 10, 1, false, "other-1"}, {2, 10}, {3, 10}});
  EXPECT_EQ(cluster.Count("node-2", &proto::Command::has_forget_job), 1);
  cluster.Join("node-3", 1, {{0, 10}});
  EXPECT_EQ(cluster.Count("node-3", &proto::Command::has_forget_job), 1) << "has no place in it";
}

// The killed agent had reported that its pieces are on disk; the next one writes and reports again.
TEST(Adoption, ANodesPiecesCountOnce) {
  Cluster cluster;
  for (const char* node : {"node-1", "node-2"}) cluster.Seal(node, 10);
  cluster.Persist("node-2", 10);
  cluster.Replace("node-2", {{2, 10}, {3, 10}});
  cluster.Persist("node-2", 10);
  EXPECT_EQ(cluster.Count("node-2", &proto::Command::has_commit_snapshot), 0);
  cluster.Persist("node-1", 10);
  EXPECT_EQ(cluster.Count("node-1", &proto::Command::has_commit_snapshot), 1);
}

}  // namespace
}  // namespace longhaul::runtime::adoption_test
