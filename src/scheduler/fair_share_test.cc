// Fair shares over time: what queues have used beyond their guarantees decides which is next.
#include <gtest/gtest.h>

#include "scheduler/scheduler_fixture.h"

namespace longhaul::scheduler::fair_share_test {
namespace {

using std::chrono::hours;

spec::QueueSpec Queue(const std::string& name, int64_t accelerators) {
  spec::QueueSpec queue;
  queue.name = name;
  queue.guarantee[0] = accelerators * 1000;
  return queue;
}

Policy Share(share::FairShare fair_share) {
  Policy policy;
  policy.fair_share = fair_share;
  policy.preempt = false;
  return policy;
}

// `busy` has borrowed a whole host for two days when four jobs of each queue come.
int StartsOfIdle(share::FairShare fair_share) {
  World world(1, 1, 1, {Queue("busy", 0), Queue("idle", 0)}, Share(fair_share));
  world.Submit("long", 1, 8, "busy");
  world.Pass(hours(48));
  for (int i = 0; i < 4; ++i) {
    world.Submit("busy-" + std::to_string(i), 1, 2, "busy");
    world.Submit("idle-" + std::to_string(i), 1, 2, "idle");
  }
  world.End("long");
  int started = 0;
  for (int i = 0; i < 4; ++i) started += world.Runs("idle-" + std::to_string(i)) ? 1 : 0;
  return started;
}

TEST(FairShare, AQueueThatWasIdleIsAheadUntilItHasUsedAsMuch) {
  EXPECT_EQ(StartsOfIdle(share::FairShare::kHistory), 4);
  EXPECT_EQ(StartsOfIdle(share::FairShare::kPresent), 2);
}

// Both queues use a host for two days, one of them as its guarantee. Then two hosts are free.
TEST(FairShare, WhatWasUsedWithinAGuaranteeDoesNotCount) {
  World world(1, 1, 3, {Queue("entitled", 8), Queue("borrower", 0), Queue("other", 0)},
              Share(share::FairShare::kHistory));
  world.Submit("kept", 1, 8, "entitled");
  world.Submit("borrowed", 1, 8, "borrower");
  world.Submit("filler", 1, 8, "other");
  world.Pass(hours(48));
  for (const char* queue : {"borrower", "entitled"}) {
    for (const char* number : {"1", "2"}) {
      world.Submit(std::string(queue) + number, 1, 8, queue);
    }
  }
  world.End("borrowed");
  world.End("filler");
  EXPECT_TRUE(world.Runs("entitled1"));
  EXPECT_TRUE(world.Runs("entitled2"));
}

// Half of the use counts after the half-life, so a later user of the same amount is behind.
TEST(FairShare, OldUseCountsLess) {
  World world(1, 1, 1, {Queue("first_user", 0), Queue("second_user", 0)},
              Share(share::FairShare::kHistory));
  world.Submit("first", 1, 8, "first_user");
  world.Pass(hours(24));
  world.End("first");
  world.Submit("second", 1, 8, "second_user");
  world.Pass(hours(24));
  world.Submit("next_of_first", 1, 8, "first_user");
  world.Submit("next_of_second", 1, 8, "second_user");
  world.End("second");
  EXPECT_TRUE(world.Runs("next_of_first"));
}

}  // namespace
}  // namespace longhaul::scheduler::fair_share_test
