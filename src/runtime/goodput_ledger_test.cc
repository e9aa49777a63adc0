#include "runtime/goodput_ledger.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace longhaul::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Instant kStart = InstantFromNanoseconds(1'000'000'000);

double Of(const wire::Ledger& ledger, wire::Category category) {
  for (const auto& entry : ledger.categories()) {
    if (entry.category() == category) return entry.rank_seconds();
  }
  return -1;
}

wire::StepTimes Times(Duration data, Duration snapshot, Duration evaluation) {
  wire::StepTimes times;
  times.set_data_ns(data.count());
  times.set_snapshot_ns(snapshot.count());
  times.set_evaluation_ns(evaluation.count());
  return times;
}

// One account of two ranks: 3 s in the queue, 1 s of start-up, then a step of 2 s.
TEST(GoodputLedger, AgreesWithTheTimelineWorkedByHand) {
  GoodputLedger ledger(kStart, 1, 2);
  ledger.Enter(0, wire::START_UP_TIME, kStart + seconds(3));
  ledger.Enter(0, wire::LOST_WORK, kStart + seconds(4));
  ledger.BookSteps(0, 1, 1, Times(milliseconds(100), milliseconds(200), milliseconds(300)),
                   kStart + seconds(6));
  ledger.Finish(kStart + seconds(6));
  const wire::Ledger summary = ledger.Summary(kStart + seconds(60));
  EXPECT_DOUBLE_EQ(Of(summary, wire::QUEUE), 6.0);
  EXPECT_DOUBLE_EQ(Of(summary, wire::START_UP_TIME), 2.0);
  EXPECT_DOUBLE_EQ(Of(summary, wire::DATA_STALL), 0.2);
  EXPECT_DOUBLE_EQ(Of(summary, wire::SNAPSHOT), 0.4);
  EXPECT_DOUBLE_EQ(Of(summary, wire::EVALUATION), 0.6);
  EXPECT_DOUBLE_EQ(Of(summary, wire::PRODUCTIVE), 2.8);
  EXPECT_DOUBLE_EQ(summary.wall_seconds(), 6.0);
  EXPECT_DOUBLE_EQ(summary.rank_seconds(), 12.0);
  EXPECT_DOUBLE_EQ(summary.goodput(), 2.8 / 6.0);
}

// Two accounts for 2 s, one for 3 s, three for 1 s: 4 + 3 + 3 account seconds.
TEST(GoodputLedger, CountsTheAccountsThatThereAreAtEachMoment) {
  GoodputLedger ledger(kStart, 2, 1);
  ledger.EnterAll(wire::LOST_WORK, kStart);
  for (const size_t account : {0, 1}) ledger.BookSteps(account, 1, 2, {}, kStart + seconds(2));
  ledger.Resize(1, wire::REPAIR, kStart + seconds(2));
  ledger.BookSteps(0, 3, 5, {}, kStart + seconds(5));
  ledger.Resize(3, wire::REPAIR, kStart + seconds(5));
  EXPECT_TRUE(ledger.CheckSums().ok());
  EXPECT_TRUE(ledger.CheckEveryAccount().ok());
  const wire::Ledger open = ledger.Summary(kStart + seconds(6));
  EXPECT_DOUBLE_EQ(open.rank_seconds(), 10.0);
  EXPECT_DOUBLE_EQ(open.wall_seconds(), 6.0);
  EXPECT_DOUBLE_EQ(Of(open, wire::REPAIR), 2.0) << "the two that came";
  EXPECT_DOUBLE_EQ(Of(open, wire::PRODUCTIVE), 8.0);
  // What a shut account had done is thrown away with the rest.
  ledger.Resize(1, wire::REPAIR, kStart + seconds(6));
  ledger.Rollback(1);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart + seconds(6)), wire::LOST_WORK), 1.0 + 1.0 + 3.0);
  ledger.Finish(kStart + seconds(7));
  EXPECT_TRUE(ledger.CheckSums().ok());
  EXPECT_TRUE(ledger.CheckEveryAccount().ok());
  EXPECT_DOUBLE_EQ(ledger.Summary(kStart + seconds(9)).rank_seconds(), 11.0);
}

TEST(GoodputLedger, ARollbackMovesWhatWasDoneToLostWork) {
  GoodputLedger ledger(kStart, 1, 1);
  ledger.Enter(0, wire::LOST_WORK, kStart);
  for (uint64_t step = 1; step <= 5; ++step) {
    ledger.BookSteps(0, step, step, {}, kStart + seconds(step));
  }
  ledger.Rollback(3);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart), wire::PRODUCTIVE), 3.0);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart), wire::LOST_WORK), 2.0);
  ledger.Rollback(3);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart), wire::LOST_WORK), 2.0) << "once is enough";
}

TEST(GoodputLedger, ARollbackIntoAReportOfManyStepsCutsItEvenly) {
  GoodputLedger ledger(kStart, 1, 1);
  ledger.Enter(0, wire::LOST_WORK, kStart);
  ledger.BookSteps(0, 1, 10, {}, kStart + seconds(10));
  ledger.Rollback(4);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart), wire::PRODUCTIVE), 4.0);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart), wire::LOST_WORK), 6.0);
}

TEST(GoodputLedger, WhatIsSettledCannotBeLost) {
  GoodputLedger ledger(kStart, 1, 1);
  ledger.Enter(0, wire::LOST_WORK, kStart);
  ledger.BookSteps(0, 1, 1, {}, kStart + seconds(1));
  ledger.Settle(1);
  ledger.Rollback(0);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart), wire::LOST_WORK), 0.0);
}

TEST(GoodputLedger, TimesThatExceedTheStepAreCut) {
  GoodputLedger ledger(kStart, 1, 1);
  ledger.Enter(0, wire::LOST_WORK, kStart);
  ledger.BookSteps(0, 1, 1, Times(seconds(100), seconds(100), seconds(-5)), kStart + seconds(1));
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart), wire::SNAPSHOT), 1.0);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart), wire::DATA_STALL), 0.0);
  EXPECT_TRUE(ledger.CheckEveryAccount().ok());
}

// Booking together is only cheaper: any mixture gives what booking one by one gives.
TEST(GoodputLedger, BookingForAllIsBookingForEach) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    GoodputLedger together(kStart, 3, 2);
    GoodputLedger apart(kStart, 3, 2);
    Instant now = kStart;
    uint64_t step = 0;
    for (int i = 0; i < 200; ++i) {
      now += Duration(static_cast<int64_t>(random.Below(2'000'000'000)));
      const uint64_t what = random.Below(10);
      if (what < 6) {
        ++step;
        const auto times = Times(Duration(static_cast<int64_t>(random.Next() >> 35)), {}, {});
        together.BookStepsForAll(step, step, times, now);
        for (size_t account = 0; account < 3; ++account) {
          apart.BookSteps(account, step, step, times, now);
        }
      } else if (what < 8) {
        const uint64_t settled = random.Below(step + 1);
        together.Settle(settled);
        apart.Settle(settled);
      } else if (what == 8) {
        step = random.Below(step + 1);
        together.Rollback(step);
        apart.Rollback(step);
      } else {
        const size_t account = random.Below(3);
        together.Enter(account, wire::REPAIR, now);
        apart.Enter(account, wire::REPAIR, now);
      }
      ASSERT_TRUE(together.CheckSums().ok());
      ASSERT_TRUE(together.CheckEveryAccount().ok());
      ASSERT_EQ(together.Summary(now + seconds(1)).SerializeAsString(),
                apart.Summary(now + seconds(1)).SerializeAsString());
    }
  }
}

TEST(GoodputLedger, SumsToTheWallTimeWhateverHappens) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    GoodputLedger ledger(kStart, 3, 2);
    Instant now = kStart;
    uint64_t step = 0;
    for (int i = 0; i < 300; ++i) {
      now += Duration(static_cast<int64_t>(random.Below(2'000'000'000)));
      // Times may come late or out of order.
      const Instant at = now - Duration(static_cast<int64_t>(random.Below(3'000'000'000)));
      const size_t account = random.Below(3);
      switch (random.Below(4)) {
        case 0:
          ledger.Enter(account, static_cast<wire::Category>(1 + random.Below(15)), at);
          break;
        case 1:
          ++step;
          ledger.BookSteps(account, step, step,
                           Times(Duration(static_cast<int64_t>(random.Next() >> 34)), {}, {}), at);
          break;
        case 2:
          step = random.Below(step + 1);
          ledger.Rollback(step);
          break;
        default:
          ledger.Settle(random.Below(step + 1));
      }
      ASSERT_TRUE(ledger.CheckSums().ok());
      ASSERT_TRUE(ledger.CheckEveryAccount().ok());
    }
    ledger.Finish(now + seconds(5));
    const wire::Ledger summary = ledger.Summary(now);
    EXPECT_NEAR(summary.rank_seconds(), summary.wall_seconds() * 6, 1e-6);
  }
}

}  // namespace
}  // namespace longhaul::runtime
