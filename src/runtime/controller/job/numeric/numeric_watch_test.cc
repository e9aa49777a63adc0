#include "runtime/controller/job/numeric/numeric_watch.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace longhaul::runtime::controller::numeric_watch_test {
namespace {

NumericFinding NotFinite(uint64_t first, uint64_t last, std::set<uint32_t> ranks = {}) {
  return {NumericFinding::Kind::kNotFinite, first, last, std::move(ranks), "", ""};
}

proto::NumericPolicy Policy(proto::NumericPolicy::Action not_finite,
                            proto::NumericPolicy::Action spike) {
  proto::NumericPolicy policy;
  policy.set_not_finite(not_finite);
  policy.set_spike(spike);
  return policy;
}

// A watch with a finding of step 20, and the replay after step 10 up to step 19.
NumericWatch Replaying(double loss_of_step_15) {
  NumericWatch watch;
  for (uint64_t step = 1; step < 20; ++step) watch.TakeLoss(step, 2.5, true);
  watch.Open(NotFinite(20, 20, {3}));
  watch.BeginReplay(1, 1, 10);
  watch.BeginAttempt(10);
  for (uint64_t step = 11; step < 20; ++step) {
    watch.TakeLoss(step, step == 15 ? loss_of_step_15 : 2.5, true);
  }
  return watch;
}

TEST(NumericWatch, AStateNeedsAsManyGoodStepsAsItTakesToFindTheFault) {
  using P = proto::NumericPolicy;
  EXPECT_EQ(NumericWatch::StepsOfProof(Policy(P::WARN, P::WARN)), 0u);
  EXPECT_EQ(NumericWatch::StepsOfProof(Policy(P::WARN, P::IGNORE)), 0u);
  EXPECT_EQ(NumericWatch::StepsOfProof(Policy(P::ROLLBACK, P::WARN)), 1u);
  EXPECT_EQ(NumericWatch::StepsOfProof(Policy(P::STOP, P::IGNORE)), 1u);
  EXPECT_EQ(NumericWatch::StepsOfProof(Policy(P::WARN, P::ROLLBACK)), 3u);
  EXPECT_EQ(NumericWatch::StepsOfProof(Policy(P::STOP, P::STOP)), 3u);
}

TEST(NumericWatch, TheStateBeforeTheBadStepMayHaveCausedIt) {
  NumericWatch watch;
  EXPECT_EQ(watch.NewestGood(20), 18u);
  EXPECT_EQ(watch.NewestGood(2), 0u);
  EXPECT_EQ(watch.NewestGood(1), 0u);
  EXPECT_FALSE(watch.IsBad(100));
  watch.Open(NotFinite(20, 20));
  EXPECT_FALSE(watch.IsBad(18));
  EXPECT_TRUE(watch.IsBad(19));
  watch.BeginAttempt(10);
  EXPECT_FALSE(watch.IsBad(19)) << "the new attempt computes it again";
}

TEST(NumericWatch, AStateThatWasProvenBeforeStaysGoodAfterARestart) {
  NumericWatch resumed;
  resumed.BeginAttempt(100);
  EXPECT_EQ(resumed.NewestGood(101), 100u) << "what a run resumes from counts as good";
  NumericWatch watch;
  watch.BeginAttempt(0);
  watch.NoteGood(11, 1);
  watch.BeginAttempt(10);
  EXPECT_EQ(watch.NewestGood(11), 10u) << "step 11 was good before";
  NumericWatch other;
  other.BeginAttempt(0);
  other.NoteGood(10, 1);
  other.BeginAttempt(10);
  EXPECT_EQ(other.NewestGood(11), 9u) << "no loss was computed with the state of step 10";
}

TEST(NumericWatch, TheSameFindingAgainIsOneOfTheSameSteps) {
  NumericWatch watch = Replaying(2.5);
  EXPECT_FALSE(watch.IsAgain());
  watch.Open(NotFinite(20, 21));
  EXPECT_TRUE(watch.IsAgain());
  watch.Open(NotFinite(19, 19));
  EXPECT_FALSE(watch.IsAgain());
  NumericFinding spike = NotFinite(20, 20);
  spike.kind = NumericFinding::Kind::kSpike;
  watch.Open(spike);
  EXPECT_FALSE(watch.IsAgain());
}

TEST(NumericWatch, TheLossesOfTheReplayAreComparedBitForBit) {
  NumericWatch same = Replaying(2.5);
  EXPECT_EQ(same.suspicion()->equal, 9u);
  EXPECT_EQ(same.suspicion()->different, 0u);
  NumericWatch other = Replaying(2.5000000000000004);
  EXPECT_EQ(other.suspicion()->equal, 8u);
  EXPECT_EQ(other.suspicion()->different, 1u);
}

TEST(NumericWatch, AnotherFaultDuringTheReplayKeepsTheComparison) {
  NumericWatch watch = Replaying(2.5);
  watch.BeginAttempt(16);  // a worker was killed
  for (uint64_t step = 17; step < 20; ++step) watch.TakeLoss(step, 2.5, true);
  ASSERT_TRUE(watch.suspicion().has_value());
  EXPECT_EQ(watch.suspicion()->different, 0u);
  watch.Open(NotFinite(20, 20));
  EXPECT_TRUE(watch.IsAgain());
}

TEST(NumericWatch, AReportOfAnEarlierStepReplacesTheFinding) {
  NumericWatch watch;
  EXPECT_FALSE(watch.Improve(19, 19, {3})) << "nothing is open";
  watch.Open(NotFinite(20, 20, {0, 1}));
  EXPECT_FALSE(watch.Improve(21, 21, {2}));
  EXPECT_FALSE(watch.Improve(19, 19, {}));
  EXPECT_TRUE(watch.Improve(20, 20, {2}));
  EXPECT_EQ(watch.open()->ranks, (std::set<uint32_t>{0, 1, 2}));
  EXPECT_TRUE(watch.Improve(19, 19, {3}));
  EXPECT_EQ(watch.open()->ranks, (std::set<uint32_t>{3}));
  EXPECT_EQ(watch.open()->Steps(), "step 19");
  EXPECT_TRUE(watch.IsBad(18));
}

TEST(NumericWatch, RollbacksAreCloseWithinAHundredSteps) {
  NumericWatch watch;
  const auto roll_back = [&watch](uint64_t step) {
    watch.Open(NotFinite(step, step));
    watch.BeginReplay(1, 1, step - 5);
    watch.EndReplay(false);
    return watch.close_rollbacks();
  };
  EXPECT_EQ(roll_back(50), 1u);
  EXPECT_EQ(roll_back(150), 2u);
  EXPECT_EQ(roll_back(140), 3u);
  EXPECT_EQ(roll_back(241), 1u);
}

}  // namespace
}  // namespace longhaul::runtime::controller::numeric_watch_test
