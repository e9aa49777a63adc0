#include "runtime/controller/job/hang/start_times.h"

#include <gtest/gtest.h>

namespace longhaul::runtime::controller {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr auto kMemory = proto::Restore::TIER_MEMORY;
constexpr auto kDisk = proto::Restore::TIER_DISK;
constexpr Duration kLongest = minutes(10);

// An attempt that makes its first step after `time`.
void Pass(StartTimes& times, proto::Restore::Tier tier, Duration time) {
  times.Begin(tier, Instant());
  times.NoteFirstStep(Instant() + time);
  times.NoteFirstStep(Instant() + minutes(30));  // a later step
}

TEST(StartTimes, AnUnknownStartMayTakeTheLongest) {
  StartTimes times;
  times.Begin(kMemory, Instant());
  EXPECT_EQ(times.Limit(kLongest), kLongest);
}

TEST(StartTimes, AKnownStartMayTakeThreeTimesTheSlowest) {
  StartTimes times;
  Pass(times, kMemory, seconds(50));
  Pass(times, kMemory, seconds(40));
  times.Begin(kMemory, Instant());
  EXPECT_EQ(times.Limit(kLongest), seconds(150));
}

TEST(StartTimes, TheLimitIsTwoMinutesAtLeast) {
  StartTimes times;
  Pass(times, kMemory, seconds(1));
  EXPECT_EQ(times.Limit(kLongest), minutes(2));
}

TEST(StartTimes, TheLimitIsTheLongestAtMost) {
  StartTimes times;
  Pass(times, kMemory, minutes(4));
  EXPECT_EQ(times.Limit(kLongest), kLongest);
  Pass(times, kMemory, Duration::max() / 2);
  EXPECT_EQ(times.Limit(kLongest), kLongest);
}

TEST(StartTimes, ARestoreFromDiskIsNotJudgedByOnesFromMemory) {
  StartTimes times;
  Pass(times, kMemory, seconds(50));
  times.Begin(kDisk, Instant());
  EXPECT_EQ(times.Limit(kLongest), kLongest);
}

TEST(StartTimes, TheSlowestStartCountsWhateverItRestoredFrom) {
  StartTimes times;
  Pass(times, proto::Restore::TIER_NONE, seconds(90));  // it has compiled
  Pass(times, kMemory, seconds(20));
  times.Begin(kMemory, Instant());
  EXPECT_EQ(times.Limit(kLongest), seconds(270));
}

TEST(StartTimes, TheLimitDoublesWhileNoAttemptMakesAStep) {
  StartTimes times;
  Pass(times, kMemory, seconds(50));
  for (const Duration limit : {seconds(300), seconds(600), seconds(600)}) {
    times.Begin(kMemory, Instant());
    times.NoteOverdue();
    EXPECT_EQ(times.Limit(kLongest), limit);
  }
  Pass(times, kMemory, seconds(50));
  EXPECT_EQ(times.Limit(kLongest), seconds(150));
}

}  // namespace
}  // namespace longhaul::runtime::controller
