#include "runtime/simulation/replay/replay_record.h"

#include <gtest/gtest.h>

namespace longhaul::runtime::simulation::replay_record_test {
namespace {

using std::chrono::seconds;

Instant At(int64_t s) { return InstantFromNanoseconds(s * 1'000'000'000); }

// Steps of 10 s: step 1 at 10 s. A failure at 14 s; attempt 2 repeats nothing and takes step 2 at
// 50 s instead of 20 s.
TEST(ReplayRecord, ChargesTheTimeToTheFirstNewStepOfALaterAttempt) {
  ReplayRecord record(seconds(10));
  record.Stepped(At(10), 1, 1);
  record.Struck(At(14), "a");
  record.Stepped(At(50), 2, 2);
  EXPECT_EQ(record.costs().at("a").lost, seconds(30));
  EXPECT_EQ(record.costs().at("a").count, 1u);
}

TEST(ReplayRecord, StepsThatAreDoneAgainEndNoInterruption) {
  ReplayRecord record(seconds(10));
  record.Stepped(At(10), 1, 1);
  record.Stepped(At(20), 1, 2);
  record.Struck(At(24), "a");
  record.Stepped(At(60), 2, 2);
  record.Stepped(At(70), 2, 3);
  EXPECT_EQ(record.costs().at("a").lost, seconds(40));
}

// A drained job goes on for a step before it stops.
TEST(ReplayRecord, NewStepsOfTheOldAttemptAreNoLoss) {
  ReplayRecord record(seconds(10));
  record.Stepped(At(10), 1, 1);
  record.Struck(At(14), "a");
  record.Stepped(At(20), 1, 2);
  record.Stepped(At(60), 2, 3);
  EXPECT_EQ(record.costs().at("a").lost, seconds(30));
}

TEST(ReplayRecord, ASecondFailureTakesOverTheRecovery) {
  ReplayRecord record(seconds(10));
  record.Stepped(At(10), 1, 1);
  record.Struck(At(10), "a");
  record.Struck(At(25), "b");
  record.Stepped(At(60), 3, 2);
  EXPECT_EQ(record.costs().at("a").lost, seconds(15));
  EXPECT_EQ(record.costs().at("b").lost, seconds(25));
}

TEST(ReplayRecord, SlowStepsThatAreRolledBackCountAsLostWorkInstead) {
  ReplayRecord record(seconds(10));
  record.Slowed(5, seconds(3));
  record.Slowed(6, seconds(4));
  record.RolledBack(5);
  EXPECT_EQ(record.slow_excess(), seconds(3));
}

TEST(ReplayRecord, WorkThatIsRedoneByHandIsChargedToItsCause) {
  ReplayRecord record(seconds(10));
  record.RedoneByHand("a", seconds(100));
  EXPECT_EQ(record.redone_by_hand(), seconds(100));
  EXPECT_EQ(record.costs().at("a").lost, seconds(100));
}

TEST(ReplayRecord, AnOpenInterruptionIsChargedAtTheEnd) {
  ReplayRecord record(seconds(10));
  record.Stepped(At(10), 1, 1);
  record.Struck(At(14), "a");
  record.End(At(40));
  record.End(At(99));
  EXPECT_EQ(record.costs().at("a").lost, seconds(30));
}

}  // namespace
}  // namespace longhaul::runtime::simulation::replay_record_test
