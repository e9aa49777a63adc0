#include "runtime/goodput/goodput_ledger.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace longhaul::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Instant kStart = InstantFromNanoseconds(1'000'000'000);

double Of(const proto::Ledger& ledger, proto::Category category) {
  for (const auto& entry : ledger.categories()) {
    if (entry.category() == category) return entry.rank_seconds();
  }
  return -1;
}

proto::StepTimes Times(Duration data, Duration snapshot, Duration evaluation) {
  proto::StepTimes times;
  times.set_data_ns(data.count());
  times.set_snapshot_ns(snapshot.count());
  times.set_evaluation_ns(evaluation.count());
  return times;
}

// One account of two ranks: 3 s in the queue, 1 s of start-up, then a step of 2 s.
TEST(GoodputLedger, AgreesWithTheTimelineWorkedByHand) {
  GoodputLedger ledger(kStart, 1, 2);
  ledger.Enter(0, proto::START_UP_TIME, kStart + seconds(3));
  ledger.Enter(0, proto::LOST_WORK, kStart + seconds(4));
  ledger.BookSteps(0, 1, 1, Times(milliseconds(100), milliseconds(200), milliseconds(300)),
                   kStart + seconds(6));
  ledger.Finish(kStart + seconds(6));
  const proto::Ledger summary = ledger.Summary(kStart + seconds(60));
  EXPECT_DOUBLE_EQ(Of(summary, proto::QUEUE), 6.0);
  EXPECT_DOUBLE_EQ(Of(summary, proto::START_UP_TIME), 2.0);
  EXPECT_DOUBLE_EQ(Of(summary, proto::DATA_STALL), 0.2);
  EXPECT_DOUBLE_EQ(Of(summary, proto::SNAPSHOT), 0.4);
  EXPECT_DOUBLE_EQ(Of(summary, proto::EVALUATION), 0.6);
  EXPECT_DOUBLE_EQ(Of(summary, proto::PRODUCTIVE), 2.8);
  EXPECT_DOUBLE_EQ(summary.wall_seconds(), 6.0);
  EXPECT_DOUBLE_EQ(summary.rank_seconds(), 12.0);
  EXPECT_DOUBLE_EQ(summary.goodput(), 2.8 / 6.0);
}

// Two accounts for 2 s, one for 3 s, three for 1 s: 4 + 3 + 3 account seconds.
TEST(GoodputLedger, CountsTheAccountsThatThereAreAtEachMoment) {
  GoodputLedger ledger(kStart, 2, 1);
  ledger.EnterAll(proto::LOST_WORK, kStart);
  for (const size_t account : {0, 1}) ledger.BookSteps(account, 1, 2, {}, kStart + seconds(2));
  ledger.Resize(1, proto::REPAIR, kStart + seconds(2));
  ledger.BookSteps(0, 3, 5, {}, kStart + seconds(5));
  ledger.Resize(3, proto::REPAIR, kStart + seconds(5));
  EXPECT_TRUE(ledger.CheckSums().ok());
  EXPECT_TRUE(ledger.CheckEveryAccount().ok());
  const proto::Ledger open = ledger.Summary(kStart + seconds(6));
  EXPECT_DOUBLE_EQ(open.rank_seconds(), 10.0);
  EXPECT_DOUBLE_EQ(open.wall_seconds(), 6.0);
  EXPECT_DOUBLE_EQ(Of(open, proto::REPAIR), 2.0) << "the two that came";
  EXPECT_DOUBLE_EQ(Of(open, proto::PRODUCTIVE), 8.0);
  // What a shut account had done is thrown away with the rest.
  ledger.Resize(1, proto::REPAIR, kStart + seconds(6));
  ledger.Rollback(1);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart + seconds(6)), proto::LOST_WORK), 1.0 + 1.0 + 3.0);
  ledger.Finish(kStart + seconds(7));
  EXPECT_TRUE(ledger.CheckSums().ok());
  EXPECT_TRUE(ledger.CheckEveryAccount().ok());
  EXPECT_DOUBLE_EQ(ledger.Summary(kStart + seconds(9)).rank_seconds(), 11.0);
}

TEST(GoodputLedger, ARollbackMovesWhatWasDoneToLostWork) {
  GoodputLedger ledger(kStart, 1, 1);
  ledger.Enter(0, proto::LOST_WORK, kStart);
  for (uint64_t step = 1; step <= 5; ++step) {
    ledger.BookSteps(0, step, step, {}, kStart + seconds(step));
  }
  ledger.Rollback(3);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart), proto::PRODUCTIVE), 3.0);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart), proto::LOST_WORK), 2.0);
  EXPECT_DOUBLE_EQ(ledger.Summary(kStart).stepped_rank_seconds(), 5.0);
  EXPECT_DOUBLE_EQ(ledger.Summary(kStart).lost_rank_seconds(), 2.0);
  EXPECT_DOUBLE_EQ(ledger.Summary(kStart).held_rank_seconds(), 5.0);
  ledger.Rollback(3);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart), proto::LOST_WORK), 2.0) << "once is enough";
}

TEST(GoodputLedger, ARollbackIntoAReportOfManyStepsCutsItEvenly) {
  GoodputLedger ledger(kStart, 1, 1);
  ledger.Enter(0, proto::LOST_WORK, kStart);
  ledger.BookSteps(0, 1, 10, {}, kStart + seconds(10));
  ledger.Rollback(4);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart), proto::PRODUCTIVE), 4.0);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart), proto::LOST_WORK), 6.0);
}

TEST(GoodputLedger, WhatIsSettledCannotBeLost) {
  GoodputLedger ledger(kStart, 1, 1);
  ledger.Enter(0, proto::LOST_WORK, kStart);
  ledger.BookSteps(0, 1, 1, {}, kStart + seconds(1));
  ledger.Settle(1);
  ledger.Rollback(0);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart), proto::LOST_WORK), 0.0);
}

TEST(GoodputLedger, TimesThatExceedTheStepAreCut) {
  GoodputLedger ledger(kStart, 1, 1);
  ledger.Enter(0, proto::LOST_WORK, kStart);
  ledger.BookSteps(0, 1, 1, Times(seconds(100), seconds(100), seconds(-5)), kStart + seconds(1));
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart), proto::SNAPSHOT), 1.0);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(kStart), proto::DATA_STALL), 0.0);
  EXPECT_TRUE(ledger.CheckEveryAccount().ok());
}

// Steps 1 to `steps` of 100 ms on all accounts, from `now` on.
void BookSteady(GoodputLedger& ledger, size_t accounts, uint64_t steps, Instant& now) {
  for (size_t account = 0; account < accounts; ++account) {
    ledger.Enter(account, proto::LOST_WORK, now);
  }
  for (uint64_t step = 1; step <= steps; ++step) {
    now += milliseconds(100);
    for (size_t account = 0; account < accounts; ++account) {
      ledger.BookSteps(account, step, step, {}, now);
    }
  }
}

TEST(GoodputLedger, AStopWithinAStepIsAStallOnEveryAccount) {
  GoodputLedger ledger(kStart, 2, 2);
  Instant now = kStart;
  BookSteady(ledger, 2, 20, now);
  now += milliseconds(5100);
  for (const size_t account : {1, 0}) {
    EXPECT_EQ(ledger.BookSteps(account, 21, 21, {}, now), seconds(5));
  }
  const proto::Ledger summary = ledger.Summary(now);
  EXPECT_DOUBLE_EQ(Of(summary, proto::STALL), 20.0);
  EXPECT_NEAR(Of(summary, proto::PRODUCTIVE), 4 * 2.1, 1e-9);
  EXPECT_NEAR(summary.goodput(), 2.1 / 7.1, 1e-9);
  EXPECT_TRUE(ledger.CheckEveryAccount().ok());
}

TEST(GoodputLedger, WhatTheRanksReportOfASlowStepIsNoStall) {
  GoodputLedger ledger(kStart, 1, 1);
  Instant now = kStart;
  BookSteady(ledger, 1, 20, now);
  now += milliseconds(5100);
  EXPECT_EQ(ledger.BookSteps(0, 21, 21, Times({}, {}, seconds(5)), now), Duration(0));
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(now), proto::EVALUATION), 5.0);
}

// The first step after a start may compile; it says nothing of those that follow either.
TEST(GoodputLedger, TheFirstStepAfterAStartIsNeitherJudgedNorLearnedFrom) {
  GoodputLedger ledger(kStart, 1, 1);
  Instant now = kStart;
  BookSteady(ledger, 1, 20, now);
  ledger.Enter(0, proto::REPAIR, now);
  ledger.Enter(0, proto::LOST_WORK, now);
  now += seconds(30);
  EXPECT_EQ(ledger.BookSteps(0, 21, 21, {}, now), Duration(0));
  EXPECT_EQ(ledger.typical_step(), milliseconds(100));
  now += milliseconds(1100);
  EXPECT_EQ(ledger.BookSteps(0, 22, 22, {}, now), seconds(1)) << "the second one is judged";
}

// One rank of account 0 evaluates for 5 s; account 1 waits for it and reports before or after it.
TEST(GoodputLedger, TheWaitForARankOfAnotherAccountIsNoStall) {
  for (const bool explained_first : {true, false}) {
    SCOPED_TRACE(explained_first);
    GoodputLedger ledger(kStart, 2, 1);
    Instant now = kStart;
    BookSteady(ledger, 2, 20, now);
    now += milliseconds(5100);
    proto::StepTimes times = Times({}, {}, seconds(5));
    times.set_longest_ns(Duration(seconds(5)).count());
    if (explained_first) ledger.BookSteps(0, 21, 21, times, now);
    ledger.BookSteps(1, 21, 21, {}, now);
    if (!explained_first) ledger.BookSteps(0, 21, 21, times, now);
    EXPECT_DOUBLE_EQ(Of(ledger.Summary(now), proto::STALL), 0.0);
    EXPECT_TRUE(ledger.CheckEveryAccount().ok());
    now += milliseconds(5100);
    EXPECT_EQ(ledger.BookSteps(1, 22, 22, {}, now), seconds(5)) << "the next step is another one";
  }
}

TEST(GoodputLedger, StepsOfAnotherNumberOfAccountsAreLearnedAnew) {
  GoodputLedger ledger(kStart, 2, 1);
  Instant now = kStart;
  BookSteady(ledger, 2, 20, now);
  ledger.Resize(1, proto::REPAIR, now);
  ledger.Enter(0, proto::LOST_WORK, now);
  for (uint64_t step = 21; step <= 40; ++step) {
    now += milliseconds(700);
    EXPECT_EQ(ledger.BookSteps(0, step, step, {}, now), Duration(0)) << step;
  }
}

TEST(GoodputLedger, WhatFollowsTheLastStepOfAJobThatEndsWellIsItsFinish) {
  GoodputLedger ledger(kStart, 1, 1);
  Instant now = kStart;
  BookSteady(ledger, 1, 3, now);
  ledger.EndSteps(now + seconds(2));
  ledger.Finish(now + seconds(3));
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(now), proto::FINISH), 3.0);
  EXPECT_DOUBLE_EQ(Of(ledger.Summary(now), proto::LOST_WORK), 0.0);
}

// It reports its first step after 6 s, most of which it spent on imports: how long the step took is
// not known.
TEST(GoodputLedger, TheStartUpOfAScriptThatOnlyReportsStepsIsNotProductive) {
  GoodputLedger ledger(kStart, 1, 1);
  ledger.Enter(0, proto::START_UP_TIME, kStart);
  ledger.BookSteps(0, 1, 1, {}, kStart + seconds(6));
  ledger.BookSteps(0, 2, 2, {}, kStart + seconds(7));
  const proto::Ledger summary = ledger.Summary(kStart + seconds(7));
  EXPECT_DOUBLE_EQ(Of(summary, proto::START_UP_TIME), 6.0);
  EXPECT_DOUBLE_EQ(Of(summary, proto::PRODUCTIVE), 1.0);
}

TEST(GoodputLedger, TheTimeBeforeTheFirstLineOfOutputIsStartUp) {
  GoodputLedger ledger(kStart, 1, 1);
  ledger.Enter(0, proto::REPAIR, kStart + seconds(1));
  ledger.Enter(0, proto::UNREPORTED, kStart + seconds(2));
  ledger.BeginSteps(kStart + seconds(6));
  ledger.BookSteps(0, 5, 5, {}, kStart + seconds(7));
  const proto::Ledger summary = ledger.Summary(kStart + seconds(7));
  EXPECT_DOUBLE_EQ(Of(summary, proto::START_UP_TIME), 4.0);
  EXPECT_DOUBLE_EQ(Of(summary, proto::REPAIR), 1.0);
  EXPECT_DOUBLE_EQ(Of(summary, proto::UNREPORTED), 0.0);
  EXPECT_DOUBLE_EQ(Of(summary, proto::PRODUCTIVE), 1.0);
}

// What is remembered for rollbacks is bounded: the oldest steps are put together.
TEST(GoodputLedger, ARollbackOverManyStepsFindsTheirTime) {
  GoodputLedger ledger(kStart, 1, 1);
  Instant now = kStart;
  BookSteady(ledger, 1, 10'000, now);
  ledger.Rollback(9'000);
  EXPECT_NEAR(Of(ledger.Summary(now), proto::LOST_WORK), 100.0, 1e-6);
  ledger.Rollback(100);
  EXPECT_NEAR(Of(ledger.Summary(now), proto::LOST_WORK), 990.0, 1e-6);
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
        auto times = Times(Duration(static_cast<int64_t>(random.Next() >> 35)), {}, {});
        times.set_longest_ns(static_cast<int64_t>(random.Next() >> 35));
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
        together.Enter(account, proto::REPAIR, now);
        apart.Enter(account, proto::REPAIR, now);
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
    proto::Ledger before = ledger.Summary(now);
    for (int i = 0; i < 300; ++i) {
      now += Duration(static_cast<int64_t>(random.Below(2'000'000'000)));
      // Times may come late or out of order.
      const Instant at = now - Duration(static_cast<int64_t>(random.Below(3'000'000'000)));
      const size_t account = random.Below(3);
      switch (random.Below(4)) {
        case 0:
          ledger.Enter(account, static_cast<proto::Category>(1 + random.Below(15)), at);
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
      const proto::Ledger summary = ledger.Summary(now);
      ASSERT_GE(summary.stepped_rank_seconds(), before.stepped_rank_seconds());
      ASSERT_GE(summary.lost_rank_seconds(), before.lost_rank_seconds());
      ASSERT_GE(summary.held_rank_seconds(), before.held_rank_seconds());
      before = summary;
    }
    ledger.Finish(now + seconds(5));
    const proto::Ledger summary = ledger.Summary(now);
    EXPECT_NEAR(summary.rank_seconds(), summary.wall_seconds() * 6, 1e-6);
  }
}

}  // namespace
}  // namespace longhaul::runtime
