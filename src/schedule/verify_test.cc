#include "schedule/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "schedule/generate.h"
#include "schedule/simulate.h"
#include "schedule/text.h"

namespace longhaul::schedule {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kShape = "ranks 2 micro-batches 3 chunks 1 placement loop\n";
const std::string kFirst =
    "rank 0: F0.0 SendF0.0 F1.0 {SendF1.0 RecvB0.0} B0.0 W0.0 F2.0 {SendF2.0 RecvB1.0} B1.0 W1.0 "
    "RecvB2.0 B2.0 W2.0\n";
const std::string kSecond =
    "rank 1: RecvF0.0 F0.0 B0.0 W0.0 {SendB0.0 RecvF1.0} F1.0 B1.0 W1.0 {SendB1.0 RecvF2.0} F2.0 "
    "B2.0 W2.0 SendB2.0\n";

Verdict VerdictOf(const std::string& text, const VerifyOptions& options = {}) {
  const Result<Schedule> schedule = ParseSchedule(text);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return Verify(*schedule, options);
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Verify, OneForwardOneBackwardOnTwoRanksIsCorrect) {
  const Verdict verdict = VerdictOf(kShape + kFirst + kSecond);
  EXPECT_THAT(verdict.findings, IsEmpty());
  EXPECT_THAT(verdict.activations, ElementsAre(2, 1));
}

// Without the braces each rank sends first, and waits for the other.
TEST(Verify, SendsThatWaitForEachOtherAreADeadlock) {
  const std::string first = Replaced(kFirst, "{SendF1.0 RecvB0.0}", "SendF1.0 RecvB0.0");
  const std::string second = Replaced(kSecond, "{SendB0.0 RecvF1.0}", "SendB0.0 RecvF1.0");
  EXPECT_THAT(VerdictOf(kShape + first + second).findings,
              ElementsAre("deadlock: rank 0: SendF1.0, rank 1: SendB0.0"));
  EXPECT_THAT(VerdictOf(kShape + first + second, {.buffers = 1}).findings, IsEmpty());
}

TEST(Verify, EachErrorIsFound) {
  const struct {
    const char* from;
    const char* to;
    const char* finding;
  } kRows[] = {
      {"F0.0 SendF0.0", "SendF0.0 F0.0", "rank 0: SendF0.0 comes before F0.0"},
      {"B0.0 W0.0", "W0.0 B0.0", "rank 0: W0.0 comes before B0.0"},
      {"F2.0 {SendF2.0", "F1.0 {SendF2.0", "rank 0: F2.0 is missing"},
      {"F2.0 {SendF2.0", "F1.0 {SendF2.0", "rank 0: F1.0 is there twice"},
      {"RecvB2.0 B2.0", "B2.0", "rank 0: B2.0 comes before RecvB2.0"},
      {"RecvB2.0 B2.0", "B2.0", "rank 0: RecvB2.0 is missing"},
      {"F0.0 SendF0.0", "RecvF0.0 F0.0 SendF0.0",
       "rank 0: RecvF0.0: stage 0 has no stage before it on another rank"},
  };
  for (const auto& row : kRows) {
    EXPECT_THAT(VerdictOf(kShape + Replaced(kFirst, row.from, row.to) + kSecond).findings,
                Contains(row.finding))
        << row.to;
  }
}

TEST(Verify, TransfersInAnotherOrderAreFound) {
  const std::string first = Replaced(Replaced(kFirst, "SendF0.0 F1.0 {SendF1.0", "F1.0 {SendF1.0"),
                                     "RecvB0.0}", "SendF0.0 RecvB0.0}");
  EXPECT_THAT(VerdictOf(kShape + first + kSecond).findings,
              ElementsAre(HasSubstr("the transfers from rank 0 to rank 1 are in another order on "
                                    "the two ranks: F1 of stage 0 is sent, F0 of stage 0 is")));
}

TEST(Verify, TooManyActivationsAreFound) {
  EXPECT_THAT(VerdictOf(kShape + kFirst + kSecond, {.most_activations = 1}).findings,
              ElementsAre("rank 0: holds 2 activations at once, the limit is 1"));
}

// What is claimed to be gigantic costs nothing.
TEST(Verify, AScheduleWithoutItsActionsIsRefusedAtOnce) {
  const Verdict verdict =
      VerdictOf("ranks 1 micro-batches 65536 chunks 64 placement loop\nrank 0: F0.0\n");
  EXPECT_THAT(verdict.findings, ElementsAre(HasSubstr("there are 1 actions, expected at least")));
}

// A schedule with one random error is never both found correct and different in what it computes.
TEST(Verify, FindsEveryRemovedAndEveryDoubledAction) {
  const Schedule whole = *Interleaved(3, 6, 2);
  ASSERT_THAT(Verify(whole, {.buffers = 1}).findings, IsEmpty());
  for (size_t rank = 0; rank < whole.ranks.size(); ++rank) {
    for (size_t group = 0; group < whole.ranks[rank].size(); ++group) {
      for (size_t i = 0; i < whole.ranks[rank][group].size(); ++i) {
        Schedule removed = whole;
        std::vector<Group>& groups = removed.ranks[rank];
        groups[group].erase(groups[group].begin() + i);
        if (groups[group].empty()) groups.erase(groups.begin() + group);
        EXPECT_FALSE(Verify(removed, {.buffers = 1}).findings.empty());
        Schedule doubled = whole;
        doubled.ranks[rank].push_back({whole.ranks[rank][group][i]});
        EXPECT_FALSE(Verify(doubled, {.buffers = 1}).findings.empty());
      }
    }
  }
}

// The brief idea of a zero bubble: what the next rank waits for is sent before W.
TEST(Simulate, AGradientThatIsSentBeforeTheWeightsShortensTheStep) {
  const Schedule late = *ParseSchedule(kShape + kFirst + kSecond);
  EXPECT_DOUBLE_EQ(Simulate(late, {}).makespan, 12);
  std::string second = Replaced(kSecond, "W0.0 {SendB0.0 RecvF1.0}", "SendB0.0 W0.0 RecvF1.0");
  second = Replaced(second, "W1.0 {SendB1.0 RecvF2.0}", "SendB1.0 W1.0 RecvF2.0");
  second = Replaced(second, "W2.0 SendB2.0", "SendB2.0 W2.0");
  const Schedule early = *ParseSchedule(kShape + kFirst + second);
  EXPECT_DOUBLE_EQ(Simulate(early, {}).makespan, 11);
}

}  // namespace
}  // namespace longhaul::schedule
