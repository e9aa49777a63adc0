#include "service/agent/output/silence_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace longhaul::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Instant kStart = InstantFromNanoseconds(1'000'000'000);
constexpr int64_t kMillisecond = 1'000'000;

TEST(Silence, IsReportedAfterAMinuteWithoutOutputAndTime) {
  Silence silence(kStart);
  for (int second = 10; second < 60; second += 10) {
    EXPECT_FALSE(silence.Look(0, 500 * kMillisecond, kStart + seconds(second)).has_value());
  }
  EXPECT_EQ(silence.Look(0, 500 * kMillisecond, kStart + seconds(60)), seconds(60));
  EXPECT_EQ(silence.Look(0, 500 * kMillisecond, kStart + seconds(70)), seconds(70));
}

TEST(Silence, EndsWithOutputOrWithTimeUsed) {
  for (const bool output : {true, false}) {
    Silence silence(kStart);
    for (int second = 10; second <= 70; second += 10) silence.Look(0, 0, kStart + seconds(second));
    EXPECT_EQ(silence.Look(output ? 1 : 0, output ? 0 : 2'000 * kMillisecond, kStart + seconds(80)),
              Duration(0));
    EXPECT_FALSE(
        silence.Look(output ? 1 : 0, 2'000 * kMillisecond, kStart + seconds(90)).has_value())
        << "and is reported once";
  }
}

TEST(Silence, AWorkerThatComputesWithoutAWordIsNotSilent) {
  Silence silence(kStart);
  for (int second = 10; second <= 600; second += 10) {
    EXPECT_FALSE(
        silence.Look(0, second * 500 * kMillisecond, kStart + seconds(second)).has_value());
  }
}

// Threads that wake up now and then use less than a hundredth of a core.
TEST(Silence, TheNoiseOfWaitingThreadsIsNoWork) {
  Silence silence(kStart);
  std::optional<Duration> reported;
  for (int second = 10; second <= 120; second += 10) {
    reported = silence.Look(0, second * 2 * kMillisecond, kStart + seconds(second));
  }
  EXPECT_EQ(reported, seconds(120));
}

TEST(SessionCpu, CountsThisProcess) {
  volatile uint64_t work = 0;
  const int64_t before = SessionCpu(getsid(0));
  for (int i = 0; i < 100'000'000 && SessionCpu(getsid(0)) <= before; ++i) {
    for (int j = 0; j < 10'000'000; ++j) work = work + 1;
  }
  EXPECT_GT(SessionCpu(getsid(0)), before);
}

}  // namespace
}  // namespace longhaul::service
