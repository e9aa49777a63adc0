// Work that takes long without steps and output is activity; a hang is none.
#include "service/agent/activity/activity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace longhaul::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

const Instant kStart = InstantFromNanoseconds(1'000'000'000'000);
constexpr int64_t kMillisecond = 1'000'000;
constexpr ActivityLimits kLimits{seconds(30), seconds(60)};

// A worker that is sampled every 10 s.
class Sampled {
 public:
  // Lets the time pass; `work` changes the sample once for each period.
  void Pass(Duration time, const std::function<void(ActivitySample&)>& work = nullptr) {
    for (Duration passed{}; passed < time; passed += period) {
      if (work) work(sample);
      now += period;
      Look();
    }
  }
  void Look() {
    if (const auto report = activity.Take(sample, now)) last = *report;
  }

  const Duration period = seconds(10);
  Instant now = kStart;
  ActivitySample sample{.processes = 1};
  Activity activity{kLimits, period, kStart};
  std::optional<Activity::Report> last;  // the last report
};

TEST(Activity, IsIdleAfterAMinuteWithoutAnything) {
  Sampled worker;
  worker.Look();
  worker.Pass(seconds(50));
  EXPECT_FALSE(worker.last.has_value());
  worker.Pass(seconds(10));
  ASSERT_TRUE(worker.last.has_value());
  EXPECT_EQ(worker.last->idle, seconds(60));
  EXPECT_EQ(worker.last->stopped, seconds(0));
  EXPECT_THAT(worker.last->evidence, HasSubstr("no output, "));
}

TEST(Activity, LegitimateWorkIsNeverIdle) {
  const std::pair<const char*, std::function<void(ActivitySample&)>> kRows[] = {
      {"a compilation on one core", [](ActivitySample& s) { s.cpu_ns += 9'900 * kMillisecond; }},
      {"an evaluation on 2 % of a core", [](ActivitySample& s) { s.cpu_ns += 200 * kMillisecond; }},
      {"a checkpoint of 1 MiB/s", [](ActivitySample& s) { s.io_bytes += 10 << 20; }},
      {"a checkpoint on a disk that blocks", [](ActivitySample& s) { s.disk_wait = true; }},
      {"a download of 100 KiB/s", [](ActivitySample& s) { s.network_bytes += 1'000 << 10; }},
      {"a loop that polls quickly", [](ActivitySample& s) { s.switches += 20'000; }},
      {"a line of output a period", [](ActivitySample& s) { s.output_bytes += 1; }},
      {"processes of a data loader that begin and end",
       [](ActivitySample& s) { s.processes = 3 - s.processes; }},
      {"a compiler that is started again", [](ActivitySample& s) { s.cpu_ns = 5 - s.cpu_ns; }},
      {"a person with a debugger", [](ActivitySample& s) { s.debugged = true; }},
  };
  for (const auto& [name, work] : kRows) {
    Sampled worker;
    worker.Pass(minutes(60), work);
    EXPECT_FALSE(worker.last.has_value()) << name;
  }
}

TEST(Activity, TheNoiseOfThreadsThatWaitIsNoWork) {
  Sampled worker;
  worker.Look();
  worker.Pass(minutes(2), [](ActivitySample& sample) {
    sample.cpu_ns += 90 * kMillisecond;  // of 10 s
    sample.switches += 3'000;            // of Gloo and watchdogs
    sample.io_bytes += 100'000;
    sample.network_bytes += 100'000;
  });
  ASSERT_TRUE(worker.last.has_value());
  EXPECT_EQ(worker.last->idle, minutes(2));
}

// The probes of a suspected hang come in pairs that may lie minutes apart, with cheap steps
// between.
TEST(Activity, CheapWorkBeforeAPairOfProbesDoesNotCountInIt) {
  Activity probes(kLimits, seconds(2), kStart);
  ActivitySample sample{.processes = 1};
  probes.Take(sample, kStart);
  probes.Take(sample, kStart + seconds(2));
  EXPECT_EQ(probes.idle(), seconds(2));
  sample.cpu_ns += 200 * kMillisecond;  // of 30 s, which is less than the noise
  probes.Take(sample, kStart + seconds(32));
  probes.Take(sample, kStart + seconds(34));
  EXPECT_GE(probes.idle(), seconds(2));
}

// With short limits a sample is taken so often that one tick of the kernel's clock is a tenth of
// the time, and the work of one period is less than is counted.
TEST(Activity, ALittleWorkInEachShortPeriodIsNoticed) {
  Activity activity({milliseconds(400), milliseconds(400)}, milliseconds(100), kStart);
  ActivitySample sample{.processes = 1};
  Instant now = kStart;
  for (int i = 0; i < 1'000; ++i) {
    now += milliseconds(100);
    if (i % 2 == 0) sample.cpu_ns += 10 * kMillisecond;  // 5 %
    EXPECT_FALSE(activity.Take(sample, now).has_value()) << i;
  }
}

TEST(Activity, TheEndOfASilenceIsReportedOnce) {
  Sampled worker;
  worker.Look();
  worker.Pass(seconds(70));
  ASSERT_EQ(worker.last->idle, seconds(70));
  worker.sample.output_bytes += 10;
  worker.Pass(seconds(10));
  EXPECT_EQ(worker.last->idle, seconds(0));
  worker.last.reset();
  worker.Pass(seconds(30));
  EXPECT_FALSE(worker.last.has_value());
}

TEST(Activity, AStopIsReportedAfterItsLimit) {
  Sampled worker;
  worker.Look();
  worker.sample.stopped = true;
  worker.Pass(seconds(30));
  EXPECT_FALSE(worker.last.has_value()) << "seen stopped for 20 s";
  worker.Pass(seconds(10));
  ASSERT_TRUE(worker.last.has_value());
  EXPECT_EQ(worker.last->stopped, seconds(30));
  worker.sample.stopped = false;
  worker.Pass(seconds(10));
  EXPECT_EQ(worker.last->stopped, seconds(0));
}

TEST(Activity, AWorkerThatItsUserStopsAndContinuesIsNotReported) {
  Sampled worker;
  for (int i = 0; i < 20; ++i) {
    worker.sample.stopped = i % 3 != 2;  // 20 s each
    worker.sample.cpu_ns += worker.sample.stopped ? 0 : 1'000 * kMillisecond;
    worker.Pass(seconds(10));
  }
  EXPECT_FALSE(worker.last.has_value());
}

TEST(Activity, ADebuggerMayStopAWorker) {
  Sampled worker;
  worker.Look();
  worker.sample.stopped = true;
  worker.sample.debugged = true;
  worker.Pass(minutes(30));
  EXPECT_FALSE(worker.last.has_value());
}

TEST(Activity, APauseOfTheAgentCountsForTwoPeriods) {
  Sampled worker;
  worker.Look();
  worker.sample.stopped = true;
  worker.Pass(seconds(10));
  worker.now += std::chrono::hours(5);
  worker.Look();
  EXPECT_EQ(worker.activity.idle(), seconds(30));
  EXPECT_EQ(worker.activity.stopped(), seconds(20));
  EXPECT_FALSE(worker.last.has_value());
}

TEST(Activity, AClockThatGoesBackMakesNobodyIdle) {
  Sampled worker;
  worker.Look();
  worker.Pass(seconds(50));
  worker.now -= std::chrono::hours(5);
  worker.Look();
  EXPECT_EQ(worker.activity.idle(), seconds(0));
  worker.Pass(seconds(50));
  EXPECT_FALSE(worker.last.has_value());
}

TEST(ActivityPeriod, IsAQuarterOfTheShorterLimit) {
  EXPECT_EQ(ActivityPeriod({seconds(30), seconds(60)}), milliseconds(7'500));
  EXPECT_EQ(ActivityPeriod({minutes(30), minutes(60)}), seconds(10));
  EXPECT_EQ(ActivityPeriod({Duration(1), minutes(60)}), milliseconds(100));
}

}  // namespace
}  // namespace longhaul::service
