#include "runtime/controller/job/hang/slowness_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::runtime::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Outcome = SlownessWatch::Outcome;
using testing::HasSubstr;

class SlownessWatchTest : public testing::Test {
 protected:
  SlownessWatchTest() { watch_.BeginAttempt(4); }

  // Steps until a look is due. Returns how many there were; nothing if none is due after so many.
  std::optional<int> StepsUntilDue(Duration step, int most) {
    for (int i = 0; i < most; ++i) {
      if (watch_.IsDue(now_)) return i;
      Step(step);
    }
    return std::nullopt;
  }
  void Step(Duration step) {
    now_ += step;
    ++step_;
    watch_.TakeStep(step, now_);
  }

  // A look during which steps go on; all workers work for 20 % of the time, but those.
  Outcome Look(const std::set<uint32_t>& slow, uint64_t steps = 3) {
    watch_.BeginLook(step_, {"node-1", "node-2"});
    EXPECT_FALSE(Answer("node-1", 0, slow));
    EXPECT_TRUE(Answer("node-2", 2, slow));
    now_ += watch_.Period();
    step_ += steps;
    return watch_.Conclude(step_, now_);
  }
  bool Answer(const std::string& node, uint32_t first, const std::set<uint32_t>& slow) {
    proto::WorkersSampled answer;
    for (uint32_t rank = first; rank < first + 2; ++rank) {
      auto* worker = answer.add_workers();
      worker->set_rank(rank);
      worker->set_period_ns(1);
      const uint32_t works = slow.contains(rank) ? 98 : 20;
      worker->add_seen()->set_doing("running");
      worker->mutable_seen(0)->set_times(works);
      worker->add_seen()->set_doing("futex");
      worker->mutable_seen(1)->set_times(100 - works);
    }
    *answer.mutable_connections() = {connections_.begin(), connections_.end()};
    answer.set_period_ns(2'000'000'000);
    return watch_.Take(node, answer, {{"10.0.0.1", "node-1"}, {"10.0.0.2", "node-2"}});
  }
  // The job has had its first look.
  void LookOnce() {
    ASSERT_TRUE(StepsUntilDue(milliseconds(100), 1'000).has_value());
    ASSERT_EQ(Look({}), Outcome::kNothing);
  }

  // What node-1 and node-2 have sent to 10.0.0.2 in a second of their work.
  void Carry(uint64_t bytes) {
    connections_.resize(1);
    connections_[0].set_address("10.0.0.2");
    connections_[0].set_bytes(bytes);
    connections_[0].set_busy_ns(1'000'000'000);
  }

  std::vector<proto::WorkersSampled::Connection> connections_;
  SlownessWatch watch_;
  Instant now_{minutes(1)};
  uint64_t step_ = 0;
};

TEST_F(SlownessWatchTest, TheFirstLookIsSoonAfterTheFirstSteps) {
  EXPECT_EQ(StepsUntilDue(milliseconds(100), 2'000), 21 + 150);
}

TEST_F(SlownessWatchTest, LooksThatFindNothingBecomeRarer) {
  LookOnce();
  Duration before{};
  for (int i = 0; i < 5; ++i) {
    const Instant begin = now_;
    ASSERT_TRUE(StepsUntilDue(milliseconds(100), 1'000'000).has_value());
    EXPECT_GT(now_ - begin, before);
    before = now_ - begin;
    EXPECT_EQ(Look({}), Outcome::kNothing);
  }
  EXPECT_GE(before, minutes(8));
}

TEST_F(SlownessWatchTest, StepsThatBecomeSlowerAreLookedAtSoon) {
  LookOnce();
  for (int i = 0; i < 40; ++i) Step(milliseconds(100));
  ASSERT_FALSE(watch_.IsDue(now_));
  EXPECT_EQ(StepsUntilDue(milliseconds(200), 100), 11) << "when the median has changed";
}

TEST_F(SlownessWatchTest, AFewSlowStepsAreNoReason) {
  LookOnce();
  for (int i = 0; i < 10; ++i) Step(seconds(1));
  EXPECT_FALSE(watch_.IsDue(now_));
}

TEST_F(SlownessWatchTest, TwoLooksInARowNameAWorker) {
  LookOnce();
  ASSERT_TRUE(StepsUntilDue(milliseconds(500), 100).has_value());
  EXPECT_EQ(Look({2}), Outcome::kLookAgain);
  EXPECT_EQ(Look({2}), Outcome::kWorkersNamed);
  EXPECT_TRUE(watch_.has_named());
  EXPECT_EQ(watch_.BeginStacks(), std::set<std::string>{"node-2"});
  proto::WorkersProbed stacks;
  stacks.set_with_stacks(true);
  stacks.add_workers()->set_rank(2);
  stacks.mutable_workers(0)->set_stack("load (train.py:7)\nmain (train.py:20)\n");
  EXPECT_FALSE(watch_.TakeStacks("node-1", stacks)) << "it was not asked";
  EXPECT_TRUE(watch_.TakeStacks("node-2", stacks));
  const std::string text = watch_.EndStacks();
  EXPECT_THAT(text, HasSubstr("worker 2 on node-2 slows the job down: it works 98 % of the time"));
  EXPECT_THAT(text, HasSubstr("a step takes 500 ms, the fastest ones took 100 ms"));
  EXPECT_THAT(text, HasSubstr("worker 2 is in load (train.py:7) < main (train.py:20)"));
  EXPECT_EQ(watch_.stage(), SlownessWatch::Stage::kWatching);
}

TEST_F(SlownessWatchTest, AWorkerIsNamedOnceUntilItIsNotSlowAnyMore) {
  LookOnce();
  ASSERT_EQ(Look({2}), Outcome::kLookAgain);
  ASSERT_EQ(Look({2}), Outcome::kWorkersNamed);
  EXPECT_EQ(Look({2}), Outcome::kNothing);
  EXPECT_EQ(Look({}), Outcome::kEnded);
  EXPECT_EQ(Look({}), Outcome::kNothing);
  EXPECT_EQ(Look({2}), Outcome::kLookAgain);
  EXPECT_EQ(Look({2}), Outcome::kWorkersNamed);
}

TEST_F(SlownessWatchTest, AConnectionThatCarriesLessThanUsualIsNamedIfNoWorkerIsSlow) {
  Carry(100'000'000);
  LookOnce();
  Carry(2'000'000);
  EXPECT_EQ(Look({}), Outcome::kNothing) << "steps are as quick as before";
  Carry(100'000'000);
  EXPECT_EQ(Look({}), Outcome::kNothing);
  Carry(2'000'000);
  ASSERT_TRUE(StepsUntilDue(milliseconds(500), 100).has_value());
  EXPECT_EQ(Look({2}), Outcome::kLookAgain);
  EXPECT_EQ(Look({}), Outcome::kLookAgain);
  EXPECT_EQ(Look({}), Outcome::kLinksNamed);
  EXPECT_EQ(
      watch_.LinksText(),
      "the connection between node-1 and node-2 is slow: from node-1 it carries 1.91 MiB/s while "
      "it sends, and usually 75.74 MiB/s; a step takes 500 ms, the fastest ones took 100 ms");
  EXPECT_EQ(Look({}), Outcome::kNothing) << "it is named once";
  Carry(100'000'000);
  EXPECT_EQ(Look({}), Outcome::kEnded);
}

// Otherwise a connection that becomes slow little by little would never be named.
TEST_F(SlownessWatchTest, RatesWhileStepsAreSlowAreNotUsual) {
  Carry(100'000'000);
  LookOnce();
  ASSERT_TRUE(StepsUntilDue(milliseconds(500), 100).has_value());
  Carry(60'000'000);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Look({}), Outcome::kNothing);
  Carry(45'000'000);
  EXPECT_EQ(Look({}), Outcome::kLookAgain);
  EXPECT_EQ(Look({}), Outcome::kLinksNamed);
}

TEST_F(SlownessWatchTest, StepsThatAreQuickAgainEndIt) {
  LookOnce();
  ASSERT_TRUE(StepsUntilDue(milliseconds(500), 100).has_value());
  ASSERT_EQ(Look({2}), Outcome::kLookAgain);
  ASSERT_EQ(Look({2}), Outcome::kWorkersNamed);
  int ends = 0;
  for (int i = 0; i < 30; ++i) ends += watch_.TakeStep(milliseconds(300), now_);
  EXPECT_EQ(ends, 0) << "they are still slow";
  for (int i = 0; i < 30; ++i) {
    now_ += milliseconds(100);
    ends += watch_.TakeStep(milliseconds(100), now_);
  }
  EXPECT_EQ(ends, 1) << "when their median is";
  EXPECT_FALSE(watch_.has_named());
  EXPECT_EQ(StepsUntilDue(milliseconds(500), 100), 11) << "and the next one is found as soon";
}

TEST_F(SlownessWatchTest, WorkersThatChangeFromLookToLookAreNotNamed) {
  LookOnce();
  std::vector<Outcome> outcomes;
  for (uint32_t i = 0; i < 6; ++i) outcomes.push_back(Look({i % 2}));
  EXPECT_EQ(outcomes,
            (std::vector<Outcome>{Outcome::kLookAgain, Outcome::kLookAgain, Outcome::kLookAgain,
                                  Outcome::kNothing, Outcome::kLookAgain, Outcome::kLookAgain}));
}

TEST_F(SlownessWatchTest, ALookWithoutStepsShowsNothing) {
  LookOnce();
  EXPECT_EQ(Look({2}, 1), Outcome::kNothing) << "an evaluation of one worker looks like this";
  EXPECT_EQ(Look({2}, 2), Outcome::kLookAgain);
}

TEST_F(SlownessWatchTest, ALookWithoutAllAnswersShowsNothing) {
  LookOnce();
  watch_.BeginLook(step_, {"node-1", "node-2"});
  EXPECT_FALSE(Answer("node-2", 2, {2}));
  EXPECT_FALSE(Answer("node-3", 2, {2})) << "it was not asked";
  EXPECT_EQ(watch_.Conclude(step_ + 5, now_ + seconds(7)), Outcome::kNothing);
  EXPECT_FALSE(Answer("node-1", 0, {2})) << "the look is over";
}

// Steps that are quick and slow in turn: without an end to it, each change would cause a look.
TEST_F(SlownessWatchTest, StepsWhoseTimeVariesAreLookedAtMoreAndMoreRarely) {
  LookOnce();
  int looks = 0;
  for (int i = 0; i < 36'000; ++i) {  // an hour and a half
    Step(i / 50 % 2 == 0 ? milliseconds(100) : milliseconds(200));
    if (!watch_.IsDue(now_)) continue;
    ++looks;
    EXPECT_EQ(Look({}), Outcome::kNothing);
  }
  EXPECT_LE(looks, 40);
  EXPECT_GE(looks, 5);
}

TEST_F(SlownessWatchTest, TheFastestStepsOfAnEarlierAttemptCount) {
  LookOnce();
  watch_.BeginAttempt(4);
  EXPECT_EQ(StepsUntilDue(milliseconds(200), 100), 21) << "slow from its first step";
}

TEST_F(SlownessWatchTest, AnotherNumberOfWorkersHasStepsOfItsOwn) {
  LookOnce();
  watch_.BeginAttempt(2);
  EXPECT_EQ(StepsUntilDue(milliseconds(200), 90), std::nullopt);
}

TEST_F(SlownessWatchTest, ALookTakesSomeSteps) {
  EXPECT_EQ(watch_.Period(), seconds(2));
  for (int i = 0; i < 21; ++i) Step(seconds(3));
  EXPECT_EQ(watch_.Period(), seconds(15));
  for (int i = 0; i < 21; ++i) Step(minutes(3));
  EXPECT_EQ(watch_.Period(), minutes(10));
}

}  // namespace
}  // namespace longhaul::runtime::controller
