#include "runtime/controller/job/hang/slow_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace longhaul::runtime::controller {
namespace {

using testing::HasSubstr;

WorkerActivity Works(uint32_t rank, double share) {
  WorkerActivity worker;
  worker.rank = rank;
  worker.node = "node-" + std::to_string(rank / 2 + 1);
  worker.works = share;
  worker.ran = share;
  worker.mostly = "running";
  worker.known = true;
  return worker;
}

std::vector<WorkerActivity> Workers(const std::vector<double>& shares) {
  std::vector<WorkerActivity> workers;
  for (size_t i = 0; i < shares.size(); ++i) {
    workers.push_back(Works(static_cast<uint32_t>(i), shares[i]));
  }
  return workers;
}

std::vector<uint32_t> Slow(const std::vector<double>& shares) {
  std::vector<uint32_t> ranks;
  for (const WorkerActivity& worker : FindSlowWorkers(Workers(shares)).slow) {
    ranks.push_back(worker.rank);
  }
  return ranks;
}

TEST(SlowWorkers, OneForWhichAllOthersWaitIsFound) {
  EXPECT_EQ(Slow({0.2, 0.22, 0.98, 0.19}), std::vector<uint32_t>{2});
  EXPECT_DOUBLE_EQ(FindSlowWorkers(Workers({0.2, 0.22, 0.98, 0.19})).others, 0.2);
}

TEST(SlowWorkers, OfTwoWorkersOneCanBeSlow) {
  EXPECT_EQ(Slow({0.98, 0.3}), std::vector<uint32_t>{0});
  EXPECT_TRUE(Slow({0.98, 0.97}).empty());
}

TEST(SlowWorkers, TwoAtOnceAreFound) {
  EXPECT_EQ(Slow({0.2, 0.97, 0.22, 0.19, 0.2, 0.94}), (std::vector<uint32_t>{1, 5}));
}

TEST(SlowWorkers, WorkThatIsDistributedUnevenlyIsNoFault) {
  EXPECT_TRUE(Slow({0.9, 0.7, 0.5, 0.3}).empty()) << "the others differ as much";
  EXPECT_TRUE(Slow({0.95, 0.95, 0.3, 0.3}).empty()) << "half of the workers";
  EXPECT_TRUE(Slow({0.95, 0.7, 0.7, 0.7}).empty()) << "too small a difference";
  EXPECT_TRUE(Slow({0.6, 0.2, 0.2, 0.2}).empty()) << "it waits too";
}

TEST(SlowWorkers, NothingIsSaidWhereAWorkerIsUnknown) {
  std::vector<WorkerActivity> workers = Workers({0.2, 0.2, 0.98, 0.2});
  workers[3].known = false;
  EXPECT_TRUE(FindSlowWorkers(workers).slow.empty());
  EXPECT_TRUE(FindSlowWorkers({}).slow.empty());
  EXPECT_TRUE(FindSlowWorkers(Workers({0.98})).slow.empty());
}

// 100 looks at each worker, as StateSampler takes them.
double Sampled(double share, std::mt19937& random) {
  return std::binomial_distribution<int>(100, share)(random) / 100.0;
}

TEST(SlowWorkers, WorkersThatAreEquallyQuickAreNotFoundWhateverTheyWait) {
  std::mt19937 random(1);
  size_t found = 0;
  for (int draw = 0; draw < 20'000; ++draw) {
    const double share = std::uniform_real_distribution<double>(0.05, 0.99)(random);
    std::vector<double> shares;
    const int workers = std::uniform_int_distribution<int>(2, 64)(random);
    for (int i = 0; i < workers; ++i) shares.push_back(Sampled(share, random));
    found += Slow(shares).size();
  }
  EXPECT_EQ(found, 0u);
}

TEST(SlowWorkers, AWorkerThatNeedsTwiceTheTimeIsFoundInNearlyEachLook) {
  std::mt19937 random(2);
  int found = 0;
  constexpr int kDraws = 5'000;
  for (int draw = 0; draw < kDraws; ++draw) {
    const int workers = std::uniform_int_distribution<int>(3, 64)(random);
    std::vector<double> shares;
    for (int i = 0; i < workers; ++i) shares.push_back(Sampled(i == 1 ? 0.97 : 0.48, random));
    found += Slow(shares) == std::vector<uint32_t>{1};
  }
  EXPECT_GE(found, kDraws * 97 / 100);
}

proto::WorkersSampled::Worker Seen(const std::vector<std::pair<std::string, uint32_t>>& seen) {
  proto::WorkersSampled::Worker worker;
  worker.set_rank(3);
  worker.set_period_ns(2'000'000'000);
  worker.set_ran_ns(200'000'000);
  worker.set_queued_ns(1'600'000'000);
  for (const auto& [doing, times] : seen) {
    worker.add_seen()->set_doing(doing);
    worker.mutable_seen(worker.seen_size() - 1)->set_times(times);
  }
  return worker;
}

TEST(SlowWorkers, WaitsForOtherProcessesAreNoWork) {
  const WorkerActivity activity =
      ActivityOf(Seen({{"futex", 30}, {"recvfrom", 20}, {"running", 40}, {"disk", 10}}), "node-2");
  EXPECT_TRUE(activity.known);
  EXPECT_DOUBLE_EQ(activity.works, 0.5);
  EXPECT_DOUBLE_EQ(activity.ran, 0.1);
  EXPECT_DOUBLE_EQ(activity.queued, 0.8);
  EXPECT_EQ(activity.mostly, "running");
}

TEST(SlowWorkers, AFewSamplesAreNoShare) {
  EXPECT_FALSE(ActivityOf(Seen({{"running", 49}}), "").known);
  EXPECT_TRUE(ActivityOf(Seen({{"running", 50}}), "").known);
  proto::WorkersSampled::Worker worker = Seen({{"running", 100}});
  worker.set_period_ns(0);
  EXPECT_FALSE(ActivityOf(worker, "").known);
  EXPECT_FALSE(ActivityOf({}, "").known);
}

TEST(SlowWorkers, TheTextTellsProcessorsDisksAndWaitsApart) {
  std::vector<WorkerActivity> workers = Workers({0.2, 0.98, 0.21, 0.2});
  EXPECT_EQ(Describe(FindSlowWorkers(workers)),
            "worker 1 on node-1 slows the job down: it works 98 % of the time (on a processor for "
            "98 %), the others 20 % (median), and then they wait");
  workers[1].ran = 0.1;
  workers[1].queued = 0.8;
  EXPECT_THAT(Describe(FindSlowWorkers(workers)),
              HasSubstr("(could run, but others had the processors for 80 %)"));
  workers[1].queued = 0;
  workers[1].mostly = "disk";
  EXPECT_THAT(Describe(FindSlowWorkers(workers)), HasSubstr("(mostly waiting for a disk)"));
  workers[1].mostly = "clock_nanosleep";
  EXPECT_THAT(Describe(FindSlowWorkers(workers)), HasSubstr("(mostly in clock_nanosleep)"));
}

TEST(SlowWorkers, TheTextNamesFourWorkersAtMost) {
  std::vector<double> shares(20, 0.2);
  for (int i = 0; i < 6; ++i) shares[i] = 0.98;
  EXPECT_THAT(Describe(FindSlowWorkers(Workers(shares))),
              HasSubstr("workers 0, 1, 2, 3 and 2 more on node-1, node-2, ... slow the job down: "
                        "they work 98 %"));
}

}  // namespace
}  // namespace longhaul::runtime::controller
