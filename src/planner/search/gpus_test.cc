#include "planner/search/gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "planner/search/plan.h"
#include "planner/search/random_job_testing.h"
#include "planner/search/why_not.h"
#include "spec/cluster/device_cluster.h"

namespace longhaul::planner::search {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(GpuCounts, AreWholeIslandsInSmallFactors) {
  const auto h100 = *spec::ParseClusterName("h100-sxm:1024");
  EXPECT_THAT(GpuCounts(h100, 1, 40), ElementsAre(1, 2, 4, 8, 16, 24, 32, 40));
  EXPECT_THAT(GpuCounts(h100, 256, 512), ElementsAre(256, 320, 384, 448, 512));
  // The ends of the range are kept where they fill nodes: 104 does, 100 doesn't.
  EXPECT_THAT(GpuCounts(h100, 100, 104), ElementsAre(104));
  const auto gb200 = *spec::ParseClusterName("gb200-nvl72:144");
  EXPECT_THAT(GpuCounts(gb200, 72, 400), ElementsAre(72, 144, 216, 288, 360, 400));
}

// A model that fits on few GPUs.
PlanRequest SmallJob() {
  PlanRequest job;
  job.model = RandomJob(1).model;
  job.model.experts.reset();
  job.model.layers = 8;
  job.model.heads = job.model.kv_heads = 32;
  job.model.head_dim = 128;
  job.model.hidden = 4096;
  job.model.ffn_hidden = 16'384;
  job.model.sequence_length = 4096;
  job.cluster = *spec::ParseClusterName("h100-sxm:64");
  job.base.batch.global = 64;
  job.base.software.framework = "megatron-core";
  job.reach = Reach::kEverything;
  job.fixed.offload = spec::Offload::kNone;
  job.fixed.schedule = spec::PipelineSchedule::kOneForwardOneBackward;
  return job;
}

Goal GoalOf(Objective objective) {
  Goal goal;
  goal.objective = objective;
  goal.run.tokens = 1e10;
  return goal;
}

TEST(Gpus, LeastMoneyTakesFewerThanLeastTimeAndADeadlineLiesBetween) {
  const uint32_t counts[] = {8, 16, 32, 64};
  PlanRequest job = SmallJob();
  PlanOptions options;
  options.tokens = options.run.tokens = 1e10;
  options.prove = true;
  const auto plan = [&](const Goal& goal) {
    EXPECT_EQ(SetGpus(counts, goal, job), Status());
    Plan made = MakePlan(job, options);
    EXPECT_TRUE(made.proof->holds()) << made.proof->gaps.front();
    return made;
  };
  const Plan fast = plan(GoalOf(Objective::kTime));
  const Plan cheap = plan(GoalOf(Objective::kCost));
  EXPECT_EQ(fast.best.front().cluster.devices, 64u);
  EXPECT_EQ(cheap.best.front().cluster.devices, 8u);
  EXPECT_LT(cheap.best.front().run->dollars.expected, fast.best.front().run->dollars.expected);
  Goal between = GoalOf(Objective::kCost);
  between.deadline_days = 0.75 * cheap.best.front().run->days.expected;
  const Plan late = plan(between);
  ASSERT_FALSE(late.best.empty());
  EXPECT_GT(late.best.front().cluster.devices, 8u);
  EXPECT_LT(late.best.front().cluster.devices, 64u);
  for (const Proposal& proposal : late.best) {
    EXPECT_LE(proposal.run->days.expected, *between.deadline_days * (1 + 1e-9));
  }
  Fixed eight;
  eight.devices = 8;
  EXPECT_THAT(WhyNot(late, eight, options), HasSubstr("the deadline is"));
  eight.devices = 12;
  EXPECT_THAT(WhyNot(late, eight, options), HasSubstr("don't fill nodes of 8"));

  // The least time within a budget that the fastest exceeds.
  Goal tight = GoalOf(Objective::kTime);
  tight.budget_dollars =
      0.5 * (cheap.best.front().run->dollars.expected + fast.best.front().run->dollars.expected);
  const Plan within = plan(tight);
  ASSERT_FALSE(within.best.empty());
  EXPECT_LT(within.best.front().cluster.devices, 64u);
  EXPECT_LE(within.best.front().run->dollars.expected, *tight.budget_dollars * (1 + 1e-9));
}

TEST(Gpus, FrontHoldsNothingThatAnotherBeats) {
  PlanRequest job = SmallJob();
  PlanOptions options;
  options.surroundings = true;
  options.prove = true;
  const Plan plan = MakePlan(job, options);
  ASSERT_TRUE(plan.frontier_proof);
  EXPECT_TRUE(plan.frontier_proof->holds());
  std::set<uint32_t> counts;
  for (size_t i = 0; i < plan.frontier.size(); ++i) {
    const Proposal& a = plan.frontier[i].proposal;
    counts.insert(a.cluster.devices);
    for (size_t k = 0; k < i; ++k) {
      const Proposal& b = plan.frontier[k].proposal;  // at least as fast
      EXPECT_TRUE(a.cluster.devices < b.cluster.devices || a.memory_share < b.memory_share);
    }
  }
  EXPECT_GE(counts.size(), 3u);
}

// What is known from other counts only shortens the searches.
TEST(Gpus, FrontIsWhatASearchOfEachCountFinds) {
  const PlanRequest job = SmallJob();
  PlanOptions options;
  options.surroundings = true;
  const Plan plan = MakePlan(job, options);
  size_t checked = 0;
  for (const FrontierPoint& point : plan.frontier) {
    PlanRequest alone = job;
    alone.gpus = {GpuCount{point.proposal.cluster.devices}};
    alone.headroom = point.headroom_asked;
    Options search;
    search.keep = 1;
    const Outcome outcome = Search(alone, EvaluatorOracle(alone), search);
    ASSERT_FALSE(outcome.best.empty());
    const bool first = point.headroom_asked == job.headroom &&
                       point.proposal.cluster.devices == job.cluster.devices;
    if (first) continue;  // runners-up of the plan itself are points too
    ++checked;
    EXPECT_DOUBLE_EQ(outcome.best.front().step_s, point.proposal.evaluation.step.count())
        << point.proposal.cluster.devices << " GPUs, " << point.headroom_asked << " free";
  }
  EXPECT_GE(checked, 2u);
}

TEST(SetGpus, RefusesMoneyWithoutPriceAndDeadlinesWithoutTokens) {
  PlanRequest job = SmallJob();
  const uint32_t counts[] = {8};
  Goal goal;
  goal.deadline_days = 3;
  EXPECT_THAT(SetGpus(counts, goal, job).message(), HasSubstr("give the tokens"));
  goal = GoalOf(Objective::kCost);
  job.cluster.device.dollars_per_hour = 0;
  EXPECT_THAT(SetGpus(counts, goal, job).message(), HasSubstr("no price"));
  const uint32_t odd[] = {12};
  EXPECT_THAT(SetGpus(odd, GoalOf(Objective::kTime), job).message(), HasSubstr("take 8 or 16"));
}

// Stages of unlike length under ZeRO 3: what one waits for its weights falls with recompute.
TEST(Bounds, HoldForUnevenStagesOfShardedWeights) {
  PlanRequest job = SmallJob();
  job.model.layers = 14;
  job.cluster = *spec::ParseClusterName("h100-sxm:64");
  job.fixed.schedule.reset();
  job.fixed.zero_stage = 3;
  job.fixed.pipeline = 8;
  job.fixed.tensor = 1;
  Options options;
  options.keep = 1;
  options.keep_regions = true;
  const Outcome outcome = Search(job, EvaluatorOracle(job), options);
  const Proof proof = Prove(job, EvaluatorOracle(job), outcome, options);
  EXPECT_TRUE(proof.holds()) << (proof.gaps.empty() ? "" : proof.gaps.front());
}

}  // namespace
}  // namespace longhaul::planner::search
