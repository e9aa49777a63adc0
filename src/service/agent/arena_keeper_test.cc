#include "service/agent/arena_keeper.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <thread>
#include <vector>

#include "base/units.h"
#include "io/memory/shared_memory.h"

namespace longhaul::service::arena_keeper_test {
namespace {

const JobId kJob("job-1");

TEST(ArenaKeeper, KeepsARanksArenaUntilTheJobIsDropped) {
  ArenaKeeper keeper(1 << 20);
  const auto made = keeper.Provide(kJob, 1, 8192);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->bytes().size(), 8192u);
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
  EXPECT_EQ((*larger)->bytes().size(), 16384u);
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

// Above what is made at once the pages come on a thread of their own.
TEST(ArenaKeeper, MakesALargeArenasPagesBehindTheCaller) {
  constexpr uint64_t kBytes = 72 << 20;
  ArenaKeeper keeper(kBytes);
  const auto arena = *keeper.Provide(kJob, 0, kBytes);
  std::vector<unsigned char> there(kBytes / 4096);
  do {
    ASSERT_EQ(mincore(arena->bytes().data(), kBytes, there.data()), 0);
    std::this_thread::yield();
  } while ((there.back() & 1) == 0);
}

// A worker waits for the pages of a slot before it saves the first time, and a copy from a peer has
// those of one state only.
TEST(ArenaKeeper, MakesThePagesOfAnArenaThatWasFilledElsewhere) {
  constexpr uint64_t kBytes = 1 << 20;
  ArenaKeeper keeper(kBytes);
  auto fd = io::CreateSharedMemory("filled-elsewhere", Bytes(kBytes), /*populate=*/false);
  ASSERT_TRUE(fd.ok()) << fd.status();
  const auto arena = *io::SharedMemory::Open(*std::move(fd));
  std::vector<unsigned char> there(kBytes / 4096);
  ASSERT_EQ(mincore(arena->bytes().data(), kBytes, there.data()), 0);
  ASSERT_EQ(there.back() & 1, 0) << "nothing has made them before";
  ASSERT_TRUE(keeper.Install(kJob, 0, arena, kBytes).ok());
  do {
    ASSERT_EQ(mincore(arena->bytes().data(), kBytes, there.data()), 0);
    std::this_thread::yield();
  } while ((there.back() & 1) == 0);
}

}  // namespace
}  // namespace longhaul::service::arena_keeper_test
