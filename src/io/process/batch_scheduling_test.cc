#include "io/process/batch_scheduling.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace longhaul::io {
namespace {

// In a thread of its own: the policy can't be asked of the whole process.
TEST(BatchScheduling, HoldsForTheThreadAndForThoseItStarts) {
  int own = -1;
  int started = -1;
  std::thread([&] {
    ASSERT_TRUE(UseBatchScheduling().ok());
    own = sched_getscheduler(0);
    std::thread([&] { started = sched_getscheduler(0); }).join();
  }).join();
  EXPECT_EQ(own, SCHED_BATCH);
  EXPECT_EQ(started, SCHED_BATCH);
}

}  // namespace
}  // namespace longhaul::io
