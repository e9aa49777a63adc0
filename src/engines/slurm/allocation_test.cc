#include "engines/slurm/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::engines::slurm {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Nodes = std::vector<std::string>;

constexpr Instant kStart = InstantFromNanoseconds(1'000'000'000);

JobNow Runs(const std::string& id, const Nodes& nodes) { return {id, "RUNNING", nodes, "None"}; }
JobNow Waits(const std::string& id) { return {id, "PENDING", {}, "Resources"}; }

class AllocationTest : public ::testing::Test {
 protected:
  Allocation allocation_{{.nodes = 2}, "1"};
};

TEST_F(AllocationTest, HoldsWhatTheFirstJobHas) {
  const auto orders = allocation_.Observe({Runs("1", {"n1", "n2"})}, kStart);
  EXPECT_THAT(orders.added, ElementsAre(Place{"n1", "1"}, Place{"n2", "1"}));
  EXPECT_THAT(orders.fenced, IsEmpty());
  EXPECT_EQ(orders.missing, 0u);
  const auto again = allocation_.Observe({Runs("1", {"n1", "n2"})}, kStart + seconds(5));
  EXPECT_THAT(again.added, IsEmpty());
}

TEST_F(AllocationTest, ReplacesALostNodeByAFurtherJobAndFencesIt) {
  allocation_.Observe({Runs("1", {"n1", "n2"})}, kStart);
  const auto lost = allocation_.Observe({Runs("1", {"n1"})}, kStart);
  EXPECT_THAT(lost.fenced, ElementsAre(Place{"n2", "1"}));
  EXPECT_EQ(lost.missing, 1u);
  allocation_.Asked("7", 1);
  EXPECT_THAT(allocation_.jobs(), ElementsAre("7", "1"));
  EXPECT_EQ(allocation_.Observe({Runs("1", {"n1"}), Waits("7")}, kStart).missing, 0u);
  const auto given = allocation_.Observe({Runs("1", {"n1"}), Runs("7", {"n3"})}, kStart);
  EXPECT_THAT(given.added, ElementsAre(Place{"n3", "7"}));
  EXPECT_EQ(given.missing, 0u);
  // The further job loses its node, too.
  const auto second = allocation_.Observe({Runs("1", {"n1"})}, kStart);
  EXPECT_THAT(second.fenced, ElementsAre(Place{"n3", "7"}));
  EXPECT_EQ(second.missing, 1u);
  EXPECT_THAT(allocation_.further(), IsEmpty());
}

TEST_F(AllocationTest, WaitsLongerAfterEachFurtherJobThatGaveNothing) {
  allocation_.Observe({Runs("1", {"n1"})}, kStart);
  Instant now = kStart;
  Duration pause = seconds(5);
  for (int job = 10; job < 20; ++job) {
    allocation_.Asked(std::to_string(job), 1);
    EXPECT_EQ(allocation_.Observe({Runs("1", {"n1"})}, now).missing, 0u) << "it has just failed";
    now += std::min<Duration>(pause, kMaxPause) - seconds(1);
    EXPECT_EQ(allocation_.Observe({Runs("1", {"n1"})}, now).missing, 0u) << job;
    now += seconds(1);
    EXPECT_EQ(allocation_.Observe({Runs("1", {"n1"})}, now).missing, 1u) << job;
    pause *= 2;
  }
  allocation_.Asked("20", 1);
  allocation_.Observe({Runs("1", {"n1"}), Runs("20", {"n4"})}, now);
  EXPECT_EQ(allocation_.Observe({Runs("1", {"n1"})}, now).missing, 1u)
      << "one that gave a node is replaced at once";
  allocation_.Refused(now);
  EXPECT_EQ(allocation_.Observe({Runs("1", {"n1"})}, now + seconds(4)).missing, 0u);
  EXPECT_EQ(allocation_.Observe({Runs("1", {"n1"})}, now + seconds(5)).missing, 1u);
}

TEST_F(AllocationTest, ANodeThatComesBackInAnotherJobIsNewAndItsOldAgentIsFenced) {
  allocation_.Observe({Runs("1", {"n1", "n2"})}, kStart);
  allocation_.Asked("7", 1);
  const auto orders = allocation_.Observe({Runs("1", {"n1"}), Runs("7", {"n2"})}, kStart);
  EXPECT_THAT(orders.added, ElementsAre(Place{"n2", "7"}));
  EXPECT_THAT(orders.fenced, ElementsAre(Place{"n2", "1"})) << "what ran there before";
}

TEST_F(AllocationTest, KnowsNothingOfJobsOfOthers) {
  const auto orders = allocation_.Observe({Runs("1", {"n1", "n2"}), Runs("9", {"n9"})}, kStart);
  EXPECT_THAT(orders.added, ElementsAre(Place{"n1", "1"}, Place{"n2", "1"}));
}

}  // namespace
}  // namespace longhaul::engines::slurm
