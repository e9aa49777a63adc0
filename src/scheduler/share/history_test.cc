// What is remembered of the past: decayed usage and durations.
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "scheduler/share/decayed_usage.h"
#include "scheduler/share/durations.h"

namespace longhaul::scheduler::share {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

Instant At(Duration since) { return Instant(hours(480'000) + since); }

TEST(DecayedUsage, HalvesInAHalfLife) {
  DecayedUsage usage(1, hours(16));
  usage.SetRate(0, 8'000, At({}));
  usage.SetRate(0, 0, At(seconds(1)));
  // 8,000 thousandths for a second, then 16 decays, each rounded down.
  EXPECT_EQ(usage.At(0, At(seconds(1))), 8'000);
  EXPECT_NEAR(static_cast<double>(usage.At(0, At(hours(16)))), 4'000, 20);
  EXPECT_EQ(usage.At(0, At(hours(16 * 70))), 0);
}

TEST(DecayedUsage, DoesNotDependOnHowOftenItIsAsked) {
  DecayedUsage once(1, hours(1));
  DecayedUsage often(1, hours(1));
  once.SetRate(0, 1'000'000, At({}));
  often.SetRate(0, 1'000'000, At({}));
  for (int i = 1; i <= 7200; ++i) {
    often.SetRate(0, 1'000'000, At(seconds(i)));
  }
  EXPECT_EQ(once.At(0, At(hours(2))), often.At(0, At(hours(2))));
  // The steady state of a constant rate: rate * half-life / ln 2, less what two half-lives lack.
  const double want = 1e6 * 3600 / std::log(2.0) * 0.75;
  EXPECT_NEAR(static_cast<double>(once.At(0, At(hours(2)))), want, want * 0.03);
}

TEST(Durations, TakesTheUsersWord) {
  Durations durations;
  const auto expected = durations.Expect({"u", "q", 8}, hours(3), minutes(5));
  EXPECT_TRUE(expected.from_user);
  EXPECT_EQ(expected.median, hours(3));
  EXPECT_EQ(durations.Expect({"u", "q", 8}, hours(3), hours(4)).median, hours(5) + minutes(1));
}

TEST(Durations, ExpectNothingLongerThanTheLongestRun) {
  Durations durations;
  for (const auto& user_limit : {std::optional<Duration>(hours(3)), std::optional<Duration>()}) {
    const auto expected = durations.Expect({"u", "q", 8}, user_limit, {}, minutes(30));
    EXPECT_EQ(expected.median, minutes(30));
    EXPECT_EQ(expected.high, minutes(30));
  }
  EXPECT_EQ(durations.Expect({"u", "q", 8}, minutes(10), {}, minutes(30)).median, minutes(10));
  // It is being ended.
  EXPECT_EQ(durations.Expect({"u", "q", 8}, hours(3), minutes(31), minutes(30)).median,
            minutes(32));
}

TEST(Durations, AsksTheNearestGroupWithEnoughJobs) {
  Durations durations;
  for (int i = 1; i <= 10; ++i) {
    durations.Observe({"u", "q", 8}, minutes(i));
    durations.Observe({"v", "q", 8}, hours(i));
  }
  EXPECT_EQ(durations.Expect({"u", "q", 8}, {}, {}).median, minutes(5));
  EXPECT_EQ(durations.Expect({"u", "q", 8}, {}, {}).high, minutes(9));
  EXPECT_EQ(durations.Expect({"w", "q", 8}, {}, {}).median, minutes(10)) << "all twenty of q";
  EXPECT_EQ(durations.Expect({"w", "q", 9}, {}, {}).median, minutes(10)) << "any job";
  EXPECT_EQ(Durations().Expect({"w", "q", 9}, {}, {}).median, minutes(30));
}

TEST(Durations, ExpectsOfASurvivorWhatSurvivorsDid) {
  Durations durations;
  for (int i = 1; i <= 9; ++i) durations.Observe({"u", "q", 8}, minutes(1));
  durations.Observe({"u", "q", 8}, hours(5));
  EXPECT_EQ(durations.Expect({"u", "q", 8}, {}, minutes(2)).median, hours(5));
  EXPECT_GT(durations.Expect({"u", "q", 8}, {}, hours(6)).median, hours(7));
}

TEST(Durations, ForgetsAllButTheNewest) {
  Durations durations;
  Random rng(1);
  for (int i = 0; i < 1'000; ++i) {
    durations.Observe({"u", "q", 1}, Duration(static_cast<int64_t>(rng.Below(1'000'000))));
  }
  for (int i = 0; i < 64; ++i) durations.Observe({"u", "q", 1}, hours(2));
  EXPECT_EQ(durations.Expect({"u", "q", 1}, {}, {}).median, hours(2));
}

}  // namespace
}  // namespace longhaul::scheduler::share
