#include "runtime/controller/job/job.h"

#include <gtest/gtest.h>

namespace longhaul::runtime::controller {
namespace {

const Instant kStart = InstantFromNanoseconds(1'000'000'000'000);

wire::Job Spec() {
  wire::Job spec;
  spec.set_id("gpt-1");
  spec.set_nodes(2);
  spec.set_processes_per_node(4);
  return spec;
}

TEST(JobLifecycle, OnlyTheTransitionsOfTheStateDiagramAreAllowed) {
  const struct {
    wire::JobState from;
    wire::JobState to;
    bool allowed;
  } kRows[] = {
      {wire::QUEUED, wire::STARTING, true},       {wire::QUEUED, wire::RUNNING, false},
      {wire::QUEUED, wire::LEAVING, false},       {wire::STARTING, wire::RUNNING, true},
      {wire::STARTING, wire::QUEUED, false},      {wire::RUNNING, wire::RECOVERING, true},
      {wire::RUNNING, wire::LEAVING, true},       {wire::RUNNING, wire::QUEUED, false},
      {wire::RECOVERING, wire::RECOVERING, true}, {wire::RECOVERING, wire::STARTING, false},
      {wire::LEAVING, wire::QUEUED, true},        {wire::LEAVING, wire::STARTING, true},
      {wire::STOPPING, wire::RUNNING, false},     {wire::STOPPING, wire::STOPPED, true},
      {wire::STOPPED, wire::RUNNING, false},      {wire::FAILED, wire::STOPPED, false},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(IsTransition(row.from, row.to), row.allowed)
        << wire::JobState_Name(row.from) << " to " << wire::JobState_Name(row.to);
  }
}

TEST(JobLifecycle, AStateMayFollowItselfWithAnotherReason) {
  JobLifecycle life(Spec(), kStart);
  EXPECT_TRUE(life.Enter(wire::QUEUED, "submitted", false));
  EXPECT_FALSE(life.Enter(wire::QUEUED, "submitted", false));
  EXPECT_TRUE(life.Enter(wire::QUEUED, "no node is free", false));
  EXPECT_EQ(life.reason(), "no node is free");
}

TEST(JobLifecycle, AGangThatLeavesDoesNotRunAgain) {
  JobLifecycle life(Spec(), kStart);
  life.Enter(wire::STARTING, "", false);
  EXPECT_FALSE(life.Enter(wire::RUNNING, "", true));
  EXPECT_TRUE(life.Enter(wire::RUNNING, "", false));
}

TEST(JobLifecycle, AnEndIsFinal) {
  JobLifecycle life(Spec(), kStart);
  life.Enter(wire::STARTING, "", false);
  life.Enter(wire::STOPPING, "asked to stop", false);
  EXPECT_FALSE(life.Enter(wire::RUNNING, "all workers run", false));
  EXPECT_TRUE(life.live());
  life.BeginClosing(wire::STOPPED, "asked to stop");
  EXPECT_TRUE(life.live()) << "its last checkpoint is being written";
  EXPECT_TRUE(life.Enter(wire::STOPPED, "asked to stop", false));
  EXPECT_FALSE(life.live());
}

TEST(JobLifecycle, AnEpochOfAnEarlierRunIsNotUsedAgain) {
  JobLifecycle life(Spec(), kStart);
  life.SkipEpochs(7);
  life.SkipEpochs(3);
  life.BeginEpoch();
  EXPECT_EQ(life.epoch(), 8u);
}

TEST(JobRecord, HasItsPlannedSizeWhileItHasNoGang) {
  JobRecord job(Spec(), kStart, Seconds(3600));
  EXPECT_EQ(job.world(), 8u);
  job.group.Replace({NodeId("a")});
  EXPECT_EQ(job.nodes(), 1u);
  EXPECT_EQ(job.world(), 4u);
}

TEST(JobPlacement, ARetreatThatHasToWaitWaits) {
  JobPlacement placement;
  EXPECT_FALSE(placement.leaving());
  placement.BeginRetreat(Retreat::Then::kGoOn, "moved");
  placement.QueueInstead("preempted");
  EXPECT_EQ(placement.retreat()->then, Retreat::Then::kQueue);
  EXPECT_EQ(placement.retreat()->reason, "preempted");
  placement.BeginTransaction(9);
  placement.FinishRetreat();
  EXPECT_FALSE(placement.leaving());
  EXPECT_EQ(placement.preemptions(), 1u);
  EXPECT_EQ(placement.TakeTransaction(), 0u);
}

TEST(JobPlacement, AChangeOfSizeIsCountedAfterTheFirst) {
  JobPlacement placement;
  placement.NoteSize(2, 1, "it starts", kStart);
  placement.NoteSize(2, 2, "again", kStart);
  placement.NoteSize(3, 3, "it grows", kStart);
  EXPECT_EQ(placement.resizes(), 1u);
  ASSERT_EQ(placement.sizes().size(), 2u);
  EXPECT_EQ(placement.sizes()[1].epoch(), 3u);
}

}  // namespace
}  // namespace longhaul::runtime::controller
