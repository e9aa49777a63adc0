#include "service/agent/link/reconnect_pauses.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace longhaul::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

const Instant kStart = InstantFromNanoseconds(1'000'000'000'000);

// The longest pause of the tries between two times after the end of a stream.
Duration LongestPause(ReconnectPauses& pauses, Duration period, Duration from, Duration until,
                      bool answered = false) {
  Random random(7);
  Duration passed = pauses.Next({true, false, period}, kStart, random);
  Duration longest{};
  while (passed < until) {
    const Duration pause = pauses.Next({false, answered, {}}, kStart + passed, random);
    if (passed >= from) longest = std::max(longest, pause);
    passed += pause;
  }
  return longest;
}

TEST(ReconnectPauses, AControllerThatReturnsIsFoundWithinAHeartbeatPeriod) {
  for (const Duration period : {Duration(milliseconds(250)), Duration(seconds(1))}) {
    ReconnectPauses pauses(1, milliseconds(20), seconds(1), kStart);
    const Duration longest = LongestPause(pauses, period, Duration(0), seconds(59));
    EXPECT_LE(longest, period) << ToString(period);
    EXPECT_GE(longest, period * 9 / 10) << "no more tries than heartbeats";
  }
}

TEST(ReconnectPauses, AreLongerAfterAMinuteAndAfterARefusal) {
  ReconnectPauses pauses(1, milliseconds(20), seconds(1), kStart);
  EXPECT_GE(LongestPause(pauses, milliseconds(250), seconds(65), minutes(3)), seconds(1));
  ReconnectPauses refused(1, milliseconds(20), seconds(1), kStart);
  EXPECT_GE(LongestPause(refused, milliseconds(250), seconds(2), seconds(50), /*answered=*/true),
            seconds(1));
}

TEST(ReconnectPauses, AreRandom) {
  ReconnectPauses pauses(1, milliseconds(20), seconds(1), kStart);
  Random random(1);
  pauses.Next({true, false, milliseconds(250)}, kStart, random);
  Duration shortest = seconds(9), longest{};
  for (int i = 0; i < 100; ++i) {
    const Duration pause = pauses.Next({}, kStart + seconds(1), random);
    if (i < 10) continue;
    shortest = std::min(shortest, pause);
    longest = std::max(longest, pause);
  }
  EXPECT_GT(longest, 2 * shortest);
}

TEST(ReconnectPauses, OtherControllersAreTriedAtOnce) {
  ReconnectPauses pauses(2, milliseconds(20), seconds(1), kStart);
  Random random(1);
  EXPECT_EQ(pauses.Next({true, false, milliseconds(250)}, kStart, random), Duration(0));
  EXPECT_EQ(pauses.Next({}, kStart, random), Duration(0));
  EXPECT_GT(pauses.Next({}, kStart, random), Duration(0)) << "after a round";
  EXPECT_EQ(pauses.rounds(), 1u);
  EXPECT_EQ(pauses.Next({}, kStart, random), Duration(0));
}

}  // namespace
}  // namespace longhaul::service
