#include "service/agent/arena_keeper.h"

#include <gtest/gtest.h>

#include "io/shared_memory.h"

namespace longhaul::service {
namespace {

const JobId kJob("job-1");

TEST(ArenaKeeper, KeepsARanksArenaUntilTheJobIsDropped) {
  ArenaKeeper keeper(1 << 20);
  const auto made = keeper.Provide(kJob, 1, 8192);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(io::SharedMemorySize(**made)->count(), 8192);
  EXPECT_EQ(*keeper.Provide(kJob, 1, 4096), *made) << "a smaller need keeps what is sealed in it";
  EXPECT_EQ(*keeper.Provide(kJob, 1, 0), *made);
  EXPECT_EQ(keeper.Find(kJob, 1), *made);
  keeper.Drop(kJob);
  EXPECT_EQ(keeper.Find(kJob, 1), nullptr);
  EXPECT_EQ(keeper.bytes(), 0u);
}

TEST(ArenaKeeper, SaysWhenThereIsNone) {
  ArenaKeeper keeper(1 << 20);
  EXPECT_EQ(keeper.Provide(kJob, 0, 0).status().code(), Code::kNotFound);
  EXPECT_EQ(keeper.Find(kJob, 0), nullptr);
}

TEST(ArenaKeeper, ReplacesAnArenaThatIsTooSmall) {
  ArenaKeeper keeper(1 << 20);
  ASSERT_TRUE(keeper.Provide(kJob, 0, 4096).ok());
  const auto larger = keeper.Provide(kJob, 0, 16384);
  ASSERT_TRUE(larger.ok());
  EXPECT_EQ(io::SharedMemorySize(**larger)->count(), 16384);
  EXPECT_EQ(keeper.bytes(), 16384u);
}

TEST(ArenaKeeper, RefusesMoreThanItsLimit) {
  ArenaKeeper keeper(10'000);
  ASSERT_TRUE(keeper.Provide(kJob, 0, 8192).ok());
  EXPECT_EQ(keeper.Provide(kJob, 1, 4096).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(keeper.Provide(kJob, 1, UINT64_MAX).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(keeper.Provide(kJob, 0, 9'000).ok()) << "it replaces the one that counted";
  EXPECT_EQ(keeper.bytes(), 9'000u);
}

TEST(ArenaKeeper, DropsOneJobOnly) {
  ArenaKeeper keeper(1 << 20);
  ASSERT_TRUE(keeper.Provide(JobId("a"), 3, 4096).ok());
  ASSERT_TRUE(keeper.Provide(JobId("b"), 0, 4096).ok());
  keeper.Drop(JobId("a"));
  EXPECT_NE(keeper.Find(JobId("b"), 0), nullptr);
  EXPECT_EQ(keeper.bytes(), 4096u);
}

}  // namespace
}  // namespace longhaul::service
