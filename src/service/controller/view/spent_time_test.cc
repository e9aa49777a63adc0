#include "service/controller/view/spent_time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "runtime/goodput/goodput_ledger.h"

namespace longhaul::service {
namespace {

using namespace std::chrono_literals;

SpentTime::Categories Sums(std::vector<std::pair<proto::Category, double>> sums) {
  SpentTime::Categories result;
  for (const auto& [category, seconds] : sums) {
    proto::CategoryTime& each = *result.Add();
    each.set_category(category);
    each.set_rank_seconds(seconds);
  }
  return result;
}

double SumOf(const SpentTime& spent, proto::Category category) {
  const std::vector<double>& seconds = spent.Of(category);
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

TEST(SpentTime, SpreadsWhatWasGainedOverTheTimeInBetween) {
  SpentTime spent;
  spent.Note(0, Sums({}));
  spent.Note(2'500, Sums({{proto::QUEUE, 5}}));
  spent.Note(4'000, Sums({{proto::QUEUE, 5}, {proto::PRODUCTIVE, 3}}));
  EXPECT_EQ(spent.Of(proto::QUEUE), (std::vector<double>{2, 2, 1, 0, 0}));
  EXPECT_EQ(spent.Of(proto::PRODUCTIVE), (std::vector<double>{0, 0, 1, 2, 0}));
}

// Two ranks did steps for 4 s. Those of the last 1.5 s are discarded, and 1 s of recovery follows.
TEST(SpentTime, ARollbackChangesThePast) {
  SpentTime spent;
  spent.Note(4'000, Sums({{proto::PRODUCTIVE, 8}}));
  spent.Note(5'000, Sums({{proto::PRODUCTIVE, 5}, {proto::LOST_WORK, 3}, {proto::DETECT, 2}}));
  EXPECT_EQ(spent.Of(proto::PRODUCTIVE), (std::vector<double>{2, 2, 1, 0, 0, 0}));
  EXPECT_EQ(spent.Of(proto::LOST_WORK), (std::vector<double>{0, 0, 1, 2, 0, 0}));
  EXPECT_EQ(spent.Of(proto::DETECT), (std::vector<double>{0, 0, 0, 0, 2, 0}));
}

TEST(SpentTime, MovesTimeOfUnknownUseToWhatItWas) {
  SpentTime spent;
  spent.Note(2'000, Sums({{proto::UNREPORTED, 2}}));
  spent.Note(3'000, Sums({{proto::START_UP_TIME, 2.5}, {proto::PRODUCTIVE, 0.5}}));
  EXPECT_EQ(spent.Of(proto::START_UP_TIME), (std::vector<double>{1, 1, 0.5, 0}));
  EXPECT_EQ(SumOf(spent, proto::UNREPORTED), 0);
}

TEST(SpentTime, LeavesOutSumsThatNoControllerWrites) {
  SpentTime spent;
  spent.Note(1'000, Sums({{proto::PRODUCTIVE, std::nan("")}}));
  spent.Note(1'000, Sums({{proto::PRODUCTIVE, -1}}));
  spent.Note(1'000, Sums({{static_cast<proto::Category>(99), 1}}));
  EXPECT_TRUE(spent.empty());
  spent.Note(1'000, Sums({{proto::PRODUCTIVE, 1}}));
  spent.Note(-5'000, Sums({{proto::PRODUCTIVE, 2}}));  // a clock was set back
  EXPECT_EQ(SumOf(spent, proto::PRODUCTIVE), 2);
  spent.Note(std::numeric_limits<int64_t>::max() / 1'000'000, Sums({{proto::PRODUCTIVE, 3}}));
  EXPECT_LE(spent.periods(), SpentTime::kMostPeriods);
  EXPECT_NEAR(SumOf(spent, proto::PRODUCTIVE), 3, 1e-9);
}

// A gang of four nodes with random steps, stalls, snapshots and faults for 20 days.
TEST(SpentTime, HasTheSumsOfTheLedgerAndABoundedSizeAfterDaysWithFaults) {
  std::mt19937_64 random(7);
  const Instant start = InstantFromNanoseconds(1'000'000'000);
  runtime::GoodputLedger ledger(start, 4, 8);
  SpentTime spent;
  Instant now = start + 100s;
  const auto note = [&] {
    spent.Note(std::chrono::duration_cast<std::chrono::milliseconds>(now - start).count(),
               ledger.Summary(now).categories());
  };
  ledger.EnterAll(proto::START_UP_TIME, now);
  uint64_t step = 0;
  int faults = 0;
  while (now < start + 20 * 24h) {
    ledger.EnterAll(proto::LOST_WORK, now += 30s);  // the first step begins
    note();
    const uint64_t steps = 20 + random() % 3'000;
    for (uint64_t i = 0; i < steps; ++i) {
      proto::StepTimes times;
      times.set_snapshot_ns(i % 50 == 0 ? 200'000'000 : 0);
      now += 5s + (random() % 200 == 0 ? 20s : 0s);
      ledger.BookStepsForAll(step + 1, step + 1, times, now);
      ++step;
      if (i % 7 == 0) note();
    }
    ledger.EnterAll(proto::DETECT, now += 2s);
    note();
    step -= std::min<uint64_t>(step, 1 + random() % 19);
    ledger.Rollback(step);
    ledger.EnterAll(proto::REPAIR, now += 10s);
    note();
    ++faults;
  }
  EXPECT_GT(faults, 50);
  ledger.Finish(now);
  note();
  EXPECT_LE(spent.periods(), SpentTime::kMostPeriods);
  EXPECT_GT(spent.periods(), SpentTime::kMostPeriods / 2);
  const proto::Ledger sums = ledger.Summary(now);
  for (const proto::CategoryTime& each : sums.categories()) {
    EXPECT_NEAR(SumOf(spent, each.category()), each.rank_seconds(), 1e-9 * sums.rank_seconds())
        << proto::Category_Name(each.category());
  }
  // Each full period has the time of its ranks, up to what a step that was under way moved.
  for (size_t i = 0; i + 1 < spent.periods(); ++i) {
    double seconds = 0;
    for (int category = 1; category < proto::Category_ARRAYSIZE; ++category) {
      const double part = spent.Of(static_cast<proto::Category>(category))[i];
      EXPECT_GE(part, 0);
      seconds += part;
    }
    EXPECT_NEAR(seconds, 32 * static_cast<double>(spent.width_ms()) / 1e3, 1e-6 * seconds);
  }
}

}  // namespace
}  // namespace longhaul::service
