#include "scheduler/workload/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/random.h"

namespace longhaul::scheduler::workload {
namespace {

TraceJob Job(const std::string& tenant, int64_t arrival_s, int64_t duration_s, uint32_t tasks,
             uint32_t gpus) {
  TraceJob job;
  job.name = tenant + std::to_string(arrival_s);
  job.tenant = tenant;
  job.arrival_ms = arrival_s * 1000;
  job.duration_ms = duration_s * 1000;
  job.tasks = tasks;
  job.task.gpus = gpus;
  return job;
}

Contender Named(const std::string& name) {
  for (const Contender& contender : StandardContenders()) {
    if (contender.name == name) return contender;
  }
  ADD_FAILURE() << name;
  return {};
}

std::vector<TraceJob> RandomTrace(uint64_t seed, int jobs) {
  Random rng(seed);
  std::vector<TraceJob> trace;
  int64_t now = 0;
  for (int i = 0; i < jobs; ++i) {
    now += static_cast<int64_t>(rng.Below(60));
    const bool gang = rng.Below(4) == 0;
    trace.push_back(Job(rng.Below(2) == 0 ? "a" : "b", now,
                        static_cast<int64_t>(10 + rng.Below(600)),
                        static_cast<uint32_t>(gang ? 1 + rng.Below(4) : 1),
                        gang ? 8 : static_cast<uint32_t>(1 << rng.Below(4))));
  }
  return trace;
}

// Worked by hand: two hosts; 16 GPUs for 100 s, then 8 GPUs twice in turn beside each other.
TEST(Simulate, CountsUseAndWaitsAsWorkedByHand) {
  const std::vector<TraceJob> trace = {Job("a", 0, 100, 2, 8), Job("a", 0, 100, 1, 8),
                                       Job("a", 50, 50, 1, 8), Job("a", 200, 1, 1, 1)};
  const auto result = Simulate(spec::ClosCluster(1, 1, 2), trace, Named("longhaul"), {});
  ASSERT_TRUE(result.ok()) << result.status();
  // GPU-seconds until 200 s: 16 x 100 + 8 x 100 + 8 x 50 = 2,800 of 3,200.
  EXPECT_NEAR(result->use, 2'800.0 / 3'200, 1e-9);
  EXPECT_NEAR(result->demand, 2'801.0 / 3'200, 1e-9);
  EXPECT_EQ(result->wait.jobs, 4u);
  EXPECT_DOUBLE_EQ(result->wait.mean_s, (0 + 100 + 50 + 0) / 4.0);
  EXPECT_DOUBLE_EQ(result->largest_wait_s, 100);
  EXPECT_EQ(result->gangs, 1u);
  EXPECT_DOUBLE_EQ(result->leaves_ratio, 1);
  EXPECT_EQ(result->makespan, std::chrono::seconds(201));
}

TEST(Simulate, SaysWhyAJobIsTooLarge) {
  const std::vector<TraceJob> trace = {Job("a", 0, 100, 3, 8), Job("a", 1, 100, 1, 8)};
  const auto result = Simulate(spec::ClosCluster(1, 1, 2), trace, Named("longhaul"), {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->rejected, 1u);
  EXPECT_THAT(result->first_rejection,
              ::testing::HasSubstr("the largest size that fits this cluster is 2"));
}

// Spans of no events cover many samples, whose borders fall where they fall.
TEST(Simulate, SamplesOfUseAddUpToTheUse) {
  for (int64_t length = 1; length < 60; ++length) {
    const std::vector<TraceJob> trace = {Job("a", 0, 37 * length, 1, 8),
                                         Job("a", 0, 11 * length, 1, 8)};
    const auto result = Simulate(spec::ClosCluster(1, 1, 2), trace, Named("longhaul"), {});
    ASSERT_TRUE(result.ok()) << result.status();
    double sum = 0;
    for (const auto& [at, use] : result->use_over_time) {
      ASSERT_GE(use, 0.5 - 1e-9) << "one job runs all the time; at " << at << " h";
      sum += use;
    }
    EXPECT_NEAR(sum / static_cast<double>(result->use_over_time.size()), result->use_to_end, 1e-9);
  }
}

// Two blocks of three leaves of two hosts. When the gang comes, 2, 1 and 1 hosts are free in the
// first block and 2 in a leaf of the second: three leaves in one block, or two in two.
TEST(Simulate, ComparesSwitchesInTheOrderInWhichTheyAreSpared) {
  const spec::ClusterDeclaration cluster = spec::ClosCluster(2, 3, 2);
  std::vector<TraceJob> trace;
  for (int i = 0; i < 12; ++i) trace.push_back(Job("a", i, 10'000, 1, 8));
  std::map<std::string, NodeIndex> node_of;
  SimulationOptions options;
  options.on_decision = [&](const Decision& decision, Instant) {
    if (decision.kind == DecisionKind::kStart)
      node_of[decision.job.value()] = decision.tasks[0].node;
  };
  ASSERT_TRUE(Simulate(cluster, trace, Named("longhaul"), options).ok());
  const std::set<NodeIndex> busy = {3, 5, 8, 9, 10, 11};
  for (size_t i = 0; i < 12; ++i) {
    const NodeIndex node = node_of.at("job-" + std::to_string(i + 1));
    trace[i].duration_ms = busy.contains(node) ? 10'000'000 : 100'000;
  }
  trace.push_back(Job("a", 200, 100, 4, 8));
  const auto result = Simulate(cluster, trace, Named("longhaul"), {});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->gangs, 1u);
  EXPECT_EQ(result->largest_wait_s, 0);
  EXPECT_DOUBLE_EQ(result->leaves_ratio, 1.5) << "three leaves in one block, not two in two";
  EXPECT_DOUBLE_EQ(result->blocks_ratio, 1);
  EXPECT_DOUBLE_EQ(result->spread_share, 0);
}

TEST(Simulate, LosesWhatAVictimDidSinceItsSnapshot) {
  std::vector<TraceJob> trace = {Job("b", 0, 7'200, 2, 8), Job("a", 1'800, 7'200, 2, 8)};
  SimulationOptions options;
  options.snapshot_period = std::chrono::minutes(20);
  options.restart = std::chrono::minutes(1);
  const auto result =
      Simulate(spec::ClosCluster(1, 1, 4), trace, Named("longhaul+reclaim"), options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->evictions, 0u) << "there is room for both";
  const auto tight =
      Simulate(spec::ClosCluster(1, 1, 2), trace, Named("longhaul+reclaim"), options);
  ASSERT_TRUE(tight.ok()) << tight.status();
  EXPECT_EQ(tight->evictions, 0u) << "neither is within a guarantee of half the cluster";
  trace[0] = Job("b", 0, 7'200, 1, 8);
  trace.insert(trace.begin(), Job("b", 0, 7'200, 1, 8));
  trace[2] = Job("a", 1'800, 14'400, 1, 8);
  const auto reclaimed =
      Simulate(spec::ClosCluster(1, 1, 2), trace, Named("longhaul+reclaim"), options);
  ASSERT_TRUE(reclaimed.ok()) << reclaimed.status();
  ASSERT_EQ(reclaimed->evictions, 1u);
  // Half an hour less a snapshot after twenty minutes, and a minute's restart, on 8 GPUs.
  EXPECT_NEAR(reclaimed->lost_gpu_hours, 8 * 11.0 / 60, 1e-9);
}

TEST(Simulate, EndsEveryJobUnderEveryContenderAndForesight) {
  const std::vector<TraceJob> trace = RandomTrace(7, 120);
  for (const Contender& contender : StandardContenders()) {
    for (const Foresight foresight :
         {Foresight::kTrue, Foresight::kDouble, Foresight::kHalf, Foresight::kHistory}) {
      SCOPED_TRACE(contender.name);
      SimulationOptions options;
      options.foresight = foresight;
      options.check = true;
      const auto result = Simulate(spec::ClosCluster(2, 2, 2), trace, contender, options);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->wait.jobs, trace.size());
      EXPECT_GT(result->use, 0.5);
      EXPECT_LE(result->use, 1);
      if (contender.policy.placement == PlacementRule::kExact) {
        EXPECT_DOUBLE_EQ(result->leaves_ratio, 1) << "the fewest leaves, always";
      }
    }
  }
}

TEST(Simulate, RepeatsToTheBit) {
  const std::vector<TraceJob> trace = RandomTrace(3, 150);
  for (const Contender& contender : StandardContenders()) {
    const auto once = Simulate(spec::ClosCluster(1, 2, 3), trace, contender, {});
    const auto twice = Simulate(spec::ClosCluster(1, 2, 3), trace, contender, {});
    ASSERT_TRUE(once.ok() && twice.ok());
    EXPECT_EQ(once->log_hash, twice->log_hash) << contender.name;
    EXPECT_EQ(once->wait.mean_s, twice->wait.mean_s);
  }
}

// The promise of EASY: with true durations the first in line is never delayed by who passes it.
TEST(Simulate, StartsAReservedJobNoLaterThanPromised) {
  const std::vector<TraceJob> trace = RandomTrace(11, 200);
  Contender easy = Named("EASY");
  easy.policy.placement = PlacementRule::kExact;
  easy.policy.replan_period = std::chrono::hours(10'000);
  std::map<std::string, Instant> promised;
  SimulationOptions options;
  int checked = 0;
  options.on_decision = [&](const Decision& decision, Instant now) {
    const std::string& job = decision.job.value();
    if (decision.kind == DecisionKind::kReserve) {
      promised.try_emplace(job, decision.from);
    } else if (decision.kind == DecisionKind::kStart && promised.contains(job)) {
      EXPECT_LE(now, promised.at(job)) << job;
      ++checked;
    }
  };
  ASSERT_TRUE(Simulate(spec::ClosCluster(1, 2, 2), trace, easy, options).ok());
  EXPECT_GT(checked, 10);
}

TEST(Simulate, StartsEveryWaitingJobOfAReplayByItsStatedFix) {
  const std::vector<TraceJob> trace = RandomTrace(5, 60);
  SimulationOptions options;
  int rounds = 0;
  int stated = 0;
  options.on_round = [&](const Scheduler& scheduler, Instant now) {
    if (++rounds % 12 != 0) return;
    for (const JobId& job : scheduler.Waiting()) {
      const auto why = scheduler.Explain(job, now);
      ASSERT_TRUE(why.ok());
      Scheduler trial = scheduler.Copy();
      for (const Event& event : why->fix) trial.Apply(event, now);
      trial.Decide(now);
      EXPECT_EQ(trial.StageOf(job), JobStage::kAssumed) << ToJson(*why);
      ++stated;
    }
  };
  ASSERT_TRUE(Simulate(spec::ClosCluster(1, 2, 2), trace, Named("longhaul"), options).ok());
  EXPECT_GT(stated, 20);
}

TEST(OfMonth, TakesTheMonthInUtc) {
  std::vector<TraceJob> jobs(3);
  jobs[0].clock_ms = 1'512'086'399'999;  // 2017-11-30T23:59:59.999Z
  jobs[1].clock_ms = 1'512'086'400'000;
  jobs[2].clock_ms = 1'514'764'800'000;  // 2018-01-01
  ASSERT_TRUE(OfMonth(jobs, "2017-12").ok());
  ASSERT_EQ(OfMonth(jobs, "2017-12")->size(), 1u);
  EXPECT_EQ((*OfMonth(jobs, "2017-12"))[0].clock_ms, jobs[1].clock_ms);
  for (const char* month : {"2017-13", "2017-00", "october", "2017", "", "2017/10", "2017-1a"}) {
    EXPECT_FALSE(OfMonth(jobs, month).ok()) << month;
  }
}

}  // namespace
}  // namespace longhaul::scheduler::workload
