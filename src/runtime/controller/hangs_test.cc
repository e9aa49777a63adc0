// When no step comes: who is stopped, who waits, who is hung.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/controller/cluster_fixture.h"

namespace longhaul::runtime {
namespace {

using namespace controller_testing;
using std::chrono::seconds;

TEST(ControllerHangs, ContinuesAStoppedWorkerInsteadOfKillingIt) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  cluster.TickUntil(cluster.now + seconds(11));
  EXPECT_TRUE(
      cluster.Last("node-1", proto::Command::kProbeWorkers).probe_workers().resume_stopped());
  proto::WorkersProbed probed;
  probed.set_job_id("gpt-1");
  probed.set_attempt(1);
  auto* worker = probed.add_workers();
  worker->set_rank(0);
  worker->set_process_state("T");
  worker->set_resumed(true);
  cluster.Report("node-1", &proto::Event::mutable_workers_probed, probed);
  cluster.Steps(6, 7);
  EXPECT_EQ(cluster.Job().attempt(), 1u);
  ASSERT_EQ(cluster.Job().faults_size(), 1);
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "hang");
  EXPECT_GT(cluster.Job().faults(0).new_step_at_ns(), 0);
}

TEST(ControllerHangs, RestartsAHangThatProbingDoesNotHelp) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  cluster.TickUntil(cluster.now + seconds(25));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "hang");
}

// Progress is measured by the first worker's steps, and an export at the end takes none.
TEST(ControllerHangs, WhoGoesOnWhenAnotherHasEndedWellIsNotHung) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  cluster.Exit("node-1", 0, 0, 0);
  cluster.TickUntil(cluster.now + seconds(300));
  EXPECT_EQ(cluster.Job().attempt(), 1u);
  EXPECT_EQ(cluster.Job().faults_size(), 0);
  cluster.TickUntil(cluster.now + seconds(1000));
  EXPECT_GE(cluster.Job().attempt(), 2u) << "not forever";
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "hang");
}

// Says every 3 s that worker 3 waits, from `begin` on for so long.
void WaitForSlot(Cluster& cluster, Duration begin, Duration end) {
  for (Duration waited = begin; waited <= end; waited += seconds(3)) {
    proto::WorkerWaits waits;
    waits.set_job_id("gpt-1");
    waits.set_attempt(1);
    waits.set_rank(3);
    waits.set_step(6);
    waits.set_waited_ns(waited.count());
    waits.set_holders("step 4: process 7 writes it to disk");
    cluster.Report("node-2", &proto::Event::mutable_worker_waits, waits);
    cluster.TickUntil(cluster.now + seconds(3));
  }
}

TEST(ControllerHangs, AWorkerThatSaysThatItWaitsForASlotIsNotHung) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  WaitForSlot(cluster, seconds(3), seconds(300));
  EXPECT_EQ(cluster.Job().attempt(), 1u);
  cluster.Steps(6, 7);
  EXPECT_EQ(cluster.Job().faults_size(), 0);
}

TEST(ControllerHangs, AnEndlessWaitForASlotIsAHangThatNamesWhoIsWaitedFor) {
  Cluster cluster = Running();
  cluster.Steps(1, 5);
  WaitForSlot(cluster, seconds(3), seconds(640));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  ASSERT_EQ(cluster.Job().faults_size(), 1);
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "hang");
  EXPECT_THAT(cluster.Job().faults(0).what(),
              testing::HasSubstr("worker 3 waits for a slot to take a snapshot of step 6 (step 4: "
                                 "process 7 writes it to disk)"));
}

}  // namespace
}  // namespace longhaul::runtime
