#include "base/time.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"

namespace longhaul {
namespace {

using namespace std::chrono_literals;

TEST(DurationToString, AgreesWithTheTable) {
  const struct {
    Duration duration;
    const char* want;
  } kRows[] = {
      {0ns, "0 ns"},
      {999ns, "999 ns"},
      {1us, "1 us"},
      {850us, "850 us"},
      {999'600ns, "1 ms"},
      {12'345us, "12.3 ms"},
      {999'600us, "1 s"},
      {4'510ms, "4.51 s"},
      {59'940ms, "59.9 s"},
      {59'960ms, "1 min 0 s"},
      {200s, "3 min 20 s"},
      {3'599'600ms, "1 h 0 min"},
      {125min, "2 h 5 min"},
      {76h, "3 d 4 h"},
      {-200s, "-3 min 20 s"},
      {-5ms, "-5 ms"},
      {Duration::max(), "106751 d 23 h"},
  };
  for (const auto& row : kRows) EXPECT_EQ(ToString(row.duration), row.want);
}

// Days since the epoch worked by hand: 2024-02-29 is day 19782 (54 years of 365, 13 leap days, 59).
TEST(InstantToString, AgreesWithTheTable) {
  const struct {
    Duration since_epoch;
    const char* want;
  } kRows[] = {
      {0ns, "1970-01-01T00:00:00.000Z"},
      {1'999'999ns, "1970-01-01T00:00:00.001Z"},
      {19'782 * 24h + 23h + 59min + 59'999ms, "2024-02-29T23:59:59.999Z"},
      {-1ms, "1969-12-31T23:59:59.999Z"},
      {-1ns, "1969-12-31T23:59:59.999Z"},
      {Duration::min(), "1677-09-21T00:12:43.145Z"},
      {Duration::max(), "2262-04-11T23:47:16.854Z"},
  };
  for (const auto& row : kRows) EXPECT_EQ(ToString(Instant(row.since_epoch)), row.want);
}

TEST(Seconds, WholeSecondsAreExact) {
  for (const int64_t seconds : {1, 3, 7, 86'400, 1'000'003}) {
    EXPECT_EQ(ToSeconds(std::chrono::seconds(seconds)), static_cast<double>(seconds));
  }
}

TEST(Seconds, ThereAndBackKeepsTheNanosecondForDays) {
  Random random(8);
  for (int i = 0; i < 10'000; ++i) {
    const Duration duration(static_cast<int64_t>(random.Below(10 * 86'400 * 1'000'000'000ull)));
    ASSERT_EQ(DurationFromSeconds(ToSeconds(duration)), duration) << duration.count();
  }
}

TEST(Seconds, RoundToTheNearestNanosecond) {
  EXPECT_EQ(DurationFromSeconds(1.4e-9), 1ns);
  EXPECT_EQ(DurationFromSeconds(-1.6e-9), -2ns);
}

TEST(SecondsDeathTest, RefuseWhatDoesNotFit) {
  EXPECT_DEATH(DurationFromSeconds(1e10), "check failed");
  EXPECT_DEATH(DurationFromSeconds(std::numeric_limits<double>::quiet_NaN()), "check failed");
}

TEST(Instant, CountsNanosecondsSinceTheEpoch) {
  EXPECT_EQ(ToNanoseconds(InstantFromNanoseconds(17)), 17);
  EXPECT_EQ(InstantFromNanoseconds(5) + 3ns, InstantFromNanoseconds(8));
}

}  // namespace
}  // namespace longhaul
