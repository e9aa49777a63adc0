#include "runtime/controller/job/job.h"

#include <gtest/gtest.h>

namespace longhaul::runtime::controller::job_test {
namespace {

const Instant kStart = InstantFromNanoseconds(1'000'000'000'000);

proto::Job Spec() {
  proto::Job spec;
  spec.set_id("gpt-1");
  spec.set_nodes(2);
  spec.set_processes_per_node(4);
  return spec;
}

TEST(JobLifecycle, OnlyTheTransitionsOfTheStateDiagramAreAllowed) {
  const struct {
    proto::JobState from;
    proto::JobState to;
    bool allowed;
  } kRows[] = {
      {proto::QUEUED, proto::STARTING, true},       {proto::QUEUED, proto::RUNNING, false},
      {proto::QUEUED, proto::LEAVING, false},       {proto::STARTING, proto::RUNNING, true},
      {proto::STARTING, proto::QUEUED, false},      {proto::RUNNING, proto::RECOVERING, true},
      {proto::RUNNING, proto::LEAVING, true},       {proto::RUNNING, proto::QUEUED, false},
      {proto::RECOVERING, proto::RECOVERING, true}, {proto::RECOVERING, proto::STARTING, false},
      {proto::LEAVING, proto::QUEUED, true},        {proto::LEAVING, proto::STARTING, true},
      {proto::STOPPING, proto::RUNNING, false},     {proto::STOPPING, proto::STOPPED, true},
      {proto::STOPPED, proto::RUNNING, false},      {proto::FAILED, proto::STOPPED, false},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(IsTransition(row.from, row.to), row.allowed)
        << proto::JobState_Name(row.from) << " to " << proto::JobState_Name(row.to);
  }
}

TEST(JobLifecycle, AStateMayFollowItselfWithAnotherReason) {
  JobLifecycle life(Spec(), kStart);
  EXPECT_TRUE(life.Enter(proto::QUEUED, "submitted", false));
  EXPECT_FALSE(life.Enter(proto::QUEUED, "submitted", false));
  EXPECT_TRUE(life.Enter(proto::QUEUED, "no node is free", false));
  EXPECT_EQ(life.reason(), "no node is free");
}

TEST(JobLifecycle, AGangThatLeavesDoesNotRunAgain) {
  JobLifecycle life(Spec(), kStart);
  life.Enter(proto::STARTING, "", false);
  EXPECT_FALSE(life.Enter(proto::RUNNING, "", true));
  EXPECT_TRUE(life.Enter(proto::RUNNING, "", false));
}

TEST(JobLifecycle, AnEndIsFinal) {
  JobLifecycle life(Spec(), kStart);
  life.Enter(proto::STARTING, "", false);
  life.Enter(proto::STOPPING, "asked to stop", false);
  EXPECT_FALSE(life.Enter(proto::RUNNING, "all workers run", false));
  EXPECT_TRUE(life.live());
  life.BeginClosing(proto::STOPPED, "asked to stop");
  EXPECT_TRUE(life.live()) << "its last checkpoint is being written";
  EXPECT_TRUE(life.Enter(proto::STOPPED, "asked to stop", false));
  EXPECT_FALSE(life.live());
}

TEST(JobLifecycle, AnAttemptOfAnEarlierRunIsNotUsedAgain) {
  JobLifecycle life(Spec(), kStart);
  life.SkipAttempts(7);
  life.SkipAttempts(3);
  life.BeginAttempt();
  EXPECT_EQ(life.attempt(), 8u);
}

TEST(JobRecord, HasItsPlannedSizeWhileItHasNoGang) {
  JobRecord job(Spec(), kStart, Seconds(3600));
  EXPECT_EQ(job.world(), 8u);
  job.group.Replace({NodeId("a")});
  EXPECT_EQ(job.nodes(), 1u);
  EXPECT_EQ(job.world(), 4u);
}

TEST(JobPlacement, AVacateThatHasToWaitWaits) {
  JobPlacement placement;
  EXPECT_FALSE(placement.leaving());
  placement.BeginVacate(Vacate::Then::kGoOn, "moved");
  placement.QueueInstead("preempted");
  EXPECT_EQ(placement.vacate()->then, Vacate::Then::kQueue);
  EXPECT_EQ(placement.vacate()->reason, "preempted");
  placement.BeginTransaction(9);
  placement.FinishVacate();
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
  EXPECT_EQ(placement.sizes()[1].attempt(), 3u);
}

}  // namespace
}  // namespace longhaul::runtime::controller::job_test
