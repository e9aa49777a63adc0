#include "runtime/controller/job/worker_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::runtime::controller::worker_group_test {
namespace {

using testing::ElementsAre;

const Instant kStart = InstantFromNanoseconds(1'000'000'000'000);

// Two nodes of two ranks each, in attempt 3 from step 20.
WorkerGroup TwoByTwo() {
  WorkerGroup group;
  group.Replace({NodeId("a"), NodeId("b")});
  proto::DataLease lease;
  lease.set_attempt(3);
  group.BeginAttempt(lease, 20, 4);
  return group;
}

proto::WorkersStarted Pids(std::vector<int64_t> pids) {
  proto::WorkersStarted started;
  for (const int64_t pid : pids) started.add_pids(pid);
  return started;
}

TEST(WorkerGroup, APlaceIsFoundByItsNode) {
  const WorkerGroup group = TwoByTwo();
  EXPECT_EQ(group.PlaceOf("b"), 1u);
  EXPECT_FALSE(group.PlaceOf("c").has_value());
  EXPECT_EQ(group.member(1).reported_step, 20u);
  EXPECT_EQ(group.lease().attempt(), 3u);
}

TEST(WorkerGroup, AllMembersStartOneByOne) {
  WorkerGroup group = TwoByTwo();
  EXPECT_FALSE(group.Start(1, Pids({30, 40}), 2, kStart));
  EXPECT_FALSE(group.first_started());
  EXPECT_TRUE(group.Start(0, Pids({10, 20, 99}), 2, kStart));
  EXPECT_THAT(group.pids(), ElementsAre(10, 20, 30, 40));
  EXPECT_EQ(group.started_at(), kStart);
}

TEST(WorkerGroup, ASkippedPhaseCountsAsEntered) {
  WorkerGroup group = TwoByTwo();
  EXPECT_FALSE(group.EnterPhase(0, proto::PhaseEntered::STEPPING));
  EXPECT_TRUE(group.EnterPhase(1, proto::PhaseEntered::RENDEZVOUS));
  EXPECT_TRUE(group.EnterPhase(1, proto::PhaseEntered::STEPPING));
}

TEST(WorkerGroup, TheJobIsDoneWhenEveryRankIs) {
  WorkerGroup group = TwoByTwo();
  EXPECT_FALSE(group.a_rank_has_ended());
  EXPECT_FALSE(group.EndRank(0, 2));
  EXPECT_TRUE(group.a_rank_has_ended());
  EXPECT_FALSE(group.EndRank(0, 2));
  EXPECT_FALSE(group.EndRank(0, 2)) << "a node has two ranks";
  EXPECT_FALSE(group.EndRank(1, 2));
  EXPECT_TRUE(group.EndRank(1, 2));
}

TEST(WorkerGroup, TheStoreOpensOnceAnAttempt) {
  WorkerGroup group = TwoByTwo();
  EXPECT_TRUE(group.OpenStore(4000, "2.4.1"));
  EXPECT_FALSE(group.OpenStore(4001, ""));
  EXPECT_EQ(group.torch_version(), "2.4.1");
  EXPECT_EQ(group.store_port(), 4000u);
}

TEST(WorkerGroup, AnAttemptBeginsWithNothingOfTheOneBefore) {
  WorkerGroup group = TwoByTwo();
  group.OpenStore(4000, "");
  group.Start(0, Pids({10, 20}), 2, kStart);
  group.EnterPhase(0, proto::PhaseEntered::STEPPING);
  group.ReportAll(25);
  group.CloseAll();
  EXPECT_TRUE(group.all_closed());
  group.BeginAttempt({}, 22, 4);
  EXPECT_EQ(group.store_port(), 0u);
  EXPECT_FALSE(group.first_started());
  EXPECT_FALSE(group.all_closed());
  EXPECT_EQ(group.member(0).phase, proto::PhaseEntered::PHASE_UNSPECIFIED);
  EXPECT_EQ(group.member(1).reported_step, 22u);
  EXPECT_THAT(group.pids(), ElementsAre(0, 0, 0, 0));
  EXPECT_FALSE(group.Start(0, Pids({}), 2, kStart));
}

TEST(WorkerGroup, AGroupWithoutNodesHasNoPlaces) {
  WorkerGroup group = TwoByTwo();
  group.Clear();
  EXPECT_TRUE(group.empty());
  EXPECT_FALSE(group.contains("a"));
  EXPECT_TRUE(group.pids().empty());
  EXPECT_TRUE(group.all_closed());
}

}  // namespace
}  // namespace longhaul::runtime::controller::worker_group_test
