#include "engines/slurm/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

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

RunSize Size(std::vector<uint32_t> parts, uint32_t usual, uint32_t maximum) {
  RunSize size;
  size.parts = std::move(parts);
  size.usual = usual;
  size.maximum = maximum;
  return size;
}

class AllocationTest : public ::testing::Test {
 protected:
  Allocation allocation_{{.size = Size({2}, 2, 2)}, "1"};
};

TEST_F(AllocationTest, HoldsWhatTheFirstJobHas) {
  EXPECT_FALSE(allocation_.complete());
  const auto orders = allocation_.Observe({Runs("1", {"n1", "n2"})}, kStart);
  EXPECT_THAT(orders.added, ElementsAre(Place{"n1", "1"}, Place{"n2", "1"}));
  EXPECT_THAT(orders.fenced, IsEmpty());
  EXPECT_THAT(orders.requests, IsEmpty());
  EXPECT_TRUE(allocation_.complete());
  const auto again = allocation_.Observe({Runs("1", {"n1", "n2"})}, kStart + seconds(5));
  EXPECT_THAT(again.added, IsEmpty());
}

TEST_F(AllocationTest, ReplacesALostNodeByAFurtherJobAndFencesIt) {
  const Request one = {0, 1, false};
  allocation_.Observe({Runs("1", {"n1", "n2"})}, kStart);
  const auto lost = allocation_.Observe({Runs("1", {"n1"})}, kStart);
  EXPECT_THAT(lost.fenced, ElementsAre(Place{"n2", "1"}));
  EXPECT_THAT(lost.requests, ElementsAre(one));
  allocation_.Asked("7", one);
  EXPECT_THAT(allocation_.jobs(), ElementsAre("7", "1"));
  EXPECT_THAT(allocation_.Observe({Runs("1", {"n1"}), Waits("7")}, kStart).requests, IsEmpty());
  const auto given = allocation_.Observe({Runs("1", {"n1"}), Runs("7", {"n3"})}, kStart);
  EXPECT_THAT(given.added, ElementsAre(Place{"n3", "7"}));
  EXPECT_THAT(given.requests, IsEmpty());
  // The further job loses its node, too.
  const auto second = allocation_.Observe({Runs("1", {"n1"})}, kStart);
  EXPECT_THAT(second.fenced, ElementsAre(Place{"n3", "7"}));
  EXPECT_THAT(second.requests, ElementsAre(one));
  EXPECT_THAT(allocation_.further(), IsEmpty());
}

TEST_F(AllocationTest, WaitsLongerAfterEachFurtherJobThatGaveNothing) {
  const Request one = {0, 1, false};
  const auto missing = [this](Instant now) {
    return allocation_.Observe({Runs("1", {"n1"})}, now).requests.size();
  };
  missing(kStart);
  Instant now = kStart;
  Duration pause = seconds(5);
  for (int job = 10; job < 20; ++job) {
    allocation_.Asked(std::to_string(job), one);
    EXPECT_EQ(missing(now), 0u) << "it has just failed";
    now += std::min<Duration>(pause, kMaxPause) - seconds(1);
    EXPECT_EQ(missing(now), 0u) << job;
    now += seconds(1);
    EXPECT_EQ(missing(now), 1u) << job;
    pause *= 2;
  }
  allocation_.Asked("20", one);
  allocation_.Observe({Runs("1", {"n1"}), Runs("20", {"n4"})}, now);
  EXPECT_EQ(missing(now), 1u) << "one that gave a node is replaced at once";
  allocation_.Refused(one, now);
  EXPECT_EQ(missing(now + seconds(4)), 0u);
  EXPECT_EQ(missing(now + seconds(5)), 1u);
}

TEST_F(AllocationTest, ANodeThatComesBackInAnotherJobIsNewAndItsOldAgentIsFenced) {
  allocation_.Observe({Runs("1", {"n1", "n2"})}, kStart);
  allocation_.Asked("7", {0, 1, false});
  const auto orders = allocation_.Observe({Runs("1", {"n1"}), Runs("7", {"n2"})}, kStart);
  EXPECT_THAT(orders.added, ElementsAre(Place{"n2", "7"}));
  EXPECT_THAT(orders.fenced, ElementsAre(Place{"n2", "1"})) << "what ran there before";
}

TEST_F(AllocationTest, KnowsNothingOfJobsOfOthers) {
  const auto orders = allocation_.Observe({Runs("1", {"n1", "n2"}), Runs("9", {"n9"})}, kStart);
  EXPECT_THAT(orders.added, ElementsAre(Place{"n1", "1"}, Place{"n2", "1"}));
}

TEST(AllocationOfParts, EachPartHasJobsOfItsOwn) {
  Allocation allocation({.size = Size({1, 2, 1}, 4, 4)}, "1");
  const auto start = allocation.Observe({Runs("1", {"n1"})}, kStart);
  EXPECT_THAT(start.requests, ElementsAre(Request{1, 2, false}, Request{2, 1, false}));
  allocation.Asked("2", {1, 2, false});
  allocation.Asked("3", {2, 1, false});
  allocation.Observe({Runs("1", {"n1"}), Runs("2", {"n2", "n3"}), Waits("3")}, kStart);
  EXPECT_FALSE(allocation.complete());
  const JobNow third = Runs("3", {"n4"});
  allocation.Observe({Runs("1", {"n1"}), Runs("2", {"n2", "n3"}), third}, kStart);
  EXPECT_TRUE(allocation.complete());
  EXPECT_THAT(allocation.Observe({Runs("1", {"n1"}), Runs("2", {"n2"}), third}, kStart).requests,
              ElementsAre(Request{1, 1, false}))
      << "a node of the second part's kind";
  EXPECT_TRUE(allocation.complete()) << "it was";
  // A part that gets nothing does not delay another one.
  allocation.Asked("4", {1, 1, false});
  EXPECT_THAT(allocation.Observe({Runs("1", {"n1"}), Runs("2", {"n2"})}, kStart).requests,
              ElementsAre(Request{2, 1, false}));
}

class ElasticAllocation : public ::testing::Test {
 protected:
  // Grows by a job, which gets a node.
  Allocation::Orders Grow(const std::string& job, const std::string& node, Request request) {
    allocation_.Asked(job, request);
    jobs_.push_back(Runs(job, {node}));
    return Observe();
  }
  Allocation::Orders Observe() { return allocation_.Observe(jobs_, now_); }
  void Lose(const std::string& job) {
    std::erase_if(jobs_, [&](const JobNow& each) { return each.id == job; });
  }

  Instant now_ = kStart;
  Allocation allocation_{{.size = Size({1}, 2, 4)}, "1"};
  std::vector<JobNow> jobs_ = {Runs("1", {"n1"})};
};

TEST_F(ElasticAllocation, GrowsByOneJobAtATimeAndYieldsBeyondItsUsualSize) {
  EXPECT_THAT(Observe().requests, ElementsAre(Request{1, 1, false}));
  allocation_.Asked("2", {1, 1, false});
  jobs_.push_back(Waits("2"));
  EXPECT_THAT(Observe().requests, IsEmpty()) << "one waits";
  jobs_.back() = Runs("2", {"n2"});
  EXPECT_THAT(Observe().requests, ElementsAre(Request{1, 1, true}));
  EXPECT_THAT(Grow("3", "n3", {1, 1, true}).requests, ElementsAre(Request{1, 1, true}));
  EXPECT_THAT(Grow("4", "n4", {1, 1, true}).requests, IsEmpty()) << "the maximum";
  EXPECT_TRUE(allocation_.complete());
}

TEST_F(ElasticAllocation, DoesNotGrowBeforeItHasItsParts) {
  jobs_ = {Runs("1", {})};
  EXPECT_THAT(Observe().requests, ElementsAre(Request{0, 1, false}));
}

TEST_F(ElasticAllocation, AsksAgainForAJobOfItsGrowthThatIsLost) {
  Observe();
  Grow("2", "n2", {1, 1, false});
  Lose("2");
  const auto orders = Observe();
  EXPECT_THAT(orders.fenced, ElementsAre(Place{"n2", "2"}));
  EXPECT_THAT(orders.requests, ElementsAre(Request{1, 1, false}));
  // One that gave nothing is asked for later.
  allocation_.Asked("3", {1, 1, false});
  EXPECT_THAT(Observe().requests, IsEmpty());
  now_ += seconds(5);
  EXPECT_THAT(Observe().requests, ElementsAre(Request{1, 1, false}));
}

TEST_F(ElasticAllocation, ShrinksByItsNewestJobs) {
  Observe();
  Grow("10", "n2", {1, 1, false});
  Grow("9", "n3", {1, 1, true});
  allocation_.Asked("11", {1, 1, true});
  jobs_.push_back(Waits("11"));
  allocation_.SetTarget(2);
  EXPECT_THAT(Observe().release, ElementsAre("11", "9"));
  EXPECT_THAT(Observe().release, IsEmpty()) << "each is named once";
  Lose("11");
  EXPECT_THAT(Observe().requests, IsEmpty());
  Lose("9");
  EXPECT_THAT(Observe().requests, IsEmpty()) << "it was given back, and is not missed";
  allocation_.SetTarget(0);
  EXPECT_THAT(Observe().release, ElementsAre("10"));
  Lose("10");
  EXPECT_THAT(Observe().release, IsEmpty()) << "the first job stays";
  allocation_.SetTarget(9);
  EXPECT_THAT(Observe().requests, ElementsAre(Request{1, 1, false})) << "without a pause";
}

TEST_F(ElasticAllocation, GivesBackAJobOfItsGrowthThatTheRunDoesNotUse) {
  const auto observe = [this](std::set<std::string> busy) {
    allocation_.SetBusy(busy, now_);
    return Observe();
  };
  allocation_.SetTarget(2);
  Observe();
  Grow("2", "n2", {1, 1, false});
  observe({"n1"});
  now_ += minutes(9);
  observe({"n1", "n2"});
  now_ += minutes(9);
  EXPECT_THAT(observe({"n1"}).release, IsEmpty()) << "used in the meantime";
  now_ += minutes(9);
  EXPECT_THAT(observe({"n1"}).release, IsEmpty());
  now_ += minutes(1);
  const auto orders = observe({"n1"});
  EXPECT_THAT(orders.release, ElementsAre("2"));
  EXPECT_THAT(orders.unused, ElementsAre("2"));
  EXPECT_THAT(orders.requests, IsEmpty());
  EXPECT_THAT(observe({}).release, IsEmpty()) << "each is named once, and the first job stays";
  Lose("2");
  now_ += minutes(9);
  EXPECT_THAT(observe({"n1"}).requests, IsEmpty()) << "after the same time";
  now_ += minutes(1);
  EXPECT_THAT(observe({"n1"}).requests, ElementsAre(Request{1, 1, false}));
  Grow("3", "n3", {1, 1, false});
  observe({"n1"});
  now_ += minutes(10);
  EXPECT_THAT(observe({"n1"}).release, ElementsAre("3"));
  Lose("3");
  now_ += minutes(19);
  EXPECT_THAT(observe({"n1"}).requests, IsEmpty()) << "twice as long after the second one";
  now_ += minutes(1);
  EXPECT_THAT(observe({"n1"}).requests, ElementsAre(Request{1, 1, false}));
}

TEST(ElasticGroups, AGroupThatHasLostANodeIsGivenBackAndReplaced) {
  RunSize size = Size({2}, 6, 8);
  size.step = 2;
  size.group = 4;
  Allocation allocation({.size = size}, "1");
  const JobNow first = Runs("1", {"n1", "n2"});
  EXPECT_THAT(allocation.Observe({first}, kStart).requests, ElementsAre(Request{1, 4, false}));
  allocation.Asked("2", {1, 4, false});
  const auto grown = allocation.Observe({first, Runs("2", {"n3", "n4", "n5", "n6"})}, kStart);
  EXPECT_THAT(grown.requests, ElementsAre(Request{1, 2, true})) << "what is left to the maximum";
  allocation.Asked("3", {1, 2, true});
  const JobNow small = Runs("3", {"n7", "n8"});
  const auto lost = allocation.Observe({first, Runs("2", {"n3", "n4", "n5"}), small}, kStart);
  EXPECT_THAT(lost.release, ElementsAre("2"));
  EXPECT_THAT(lost.requests, ElementsAre(Request{1, 4, true}));
  allocation.Asked("4", {1, 4, true});
  // The one that leaves does not count, and its end is no failure.
  EXPECT_THAT(allocation.Observe({first, small, Waits("4")}, kStart).requests, IsEmpty());
  allocation.SetTarget(6);
  EXPECT_THAT(allocation.Observe({first, small, Waits("4")}, kStart).release, ElementsAre("4"));
  EXPECT_THAT(allocation.Observe({first, small}, kStart).requests,
              ElementsAre(Request{1, 2, false}));
}

}  // namespace
}  // namespace longhaul::engines::slurm
