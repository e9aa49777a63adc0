// Tables, JSON and the page of one small plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/plan/plan_figures.h"
#include "frontend/plan/plan_json.h"
#include "frontend/plan/plan_page.h"
#include "frontend/plan/plan_text.h"
#include "planner/search/gpus.h"
#include "planner/search/settings.h"
#include "planner/search/why_not.h"
#include "spec/cluster/device_cluster.h"

namespace longhaul::frontend {
namespace {

using planner::search::Plan;
using planner::search::PlanOptions;
using planner::search::PlanRequest;
using planner::search::Proposal;
using testing::HasSubstr;
using testing::Not;

PlanRequest SmallJob() {
  PlanRequest job;
  job.model.name = "a <b>&\"'\x1b[31m model";
  job.model.layers = 8;
  job.model.hidden = 2048;
  job.model.ffn_hidden = 8192;
  job.model.heads = job.model.kv_heads = 16;
  job.model.head_dim = 128;
  job.model.vocabulary = 32'000;
  job.model.sequence_length = 2048;
  job.cluster = *spec::ParseClusterName("h100-sxm:16");
  job.base.batch.global = 64;
  job.base.software.framework = "megatron-core";
  return job;
}

PlanOptions AllOptions() {
  PlanOptions options;
  options.tokens = 1e11;
  options.prove = true;
  options.surroundings = true;
  return options;
}

const Plan& SmallPlan() {
  static const Plan kPlan = MakePlan(SmallJob(), AllOptions());
  return kPlan;
}

TEST(PlanPage, NeedsNothingElseAndEscapesNames) {
  const std::string page = PlanPage(SmallPlan());
  const auto has = [&page](std::string_view text) { return page.find(text) != page.npos; };
  EXPECT_TRUE(has("a &lt;b&gt;&amp;&quot;' [31m model"));
  for (const char* never : {"<b>&", "\x1b", "nan", "<script", "<link", "src=", "url(", "@import"}) {
    EXPECT_FALSE(has(never)) << never;
  }
  for (const char* section :
       {"Where a step's time goes", "Memory of a GPU over time",
        "What each pipeline stage does when", "Time against money", "What would change it"}) {
    EXPECT_TRUE(has(section)) << section;
  }
}

TEST(PlanJson, HasTheFiguresOfThePlan) {
  const Plan& plan = SmallPlan();
  ASSERT_FALSE(plan.best.empty());
  const auto json = ToJson(plan);
  EXPECT_EQ(json["best"].size(), plan.best.size());
  EXPECT_EQ(json["best"][0]["step_seconds"], plan.best[0].evaluation.step.count());
  double parts = 0;
  for (const auto& part : json["best"][0]["breakdown_seconds"]) parts += part.get<double>();
  EXPECT_NEAR(parts, plan.best[0].evaluation.step.count(), 1e-9);
  EXPECT_EQ(json["search"]["points"], plan.outcome.total_points());
  EXPECT_EQ(json["search"]["proof"]["holds"], true);
  EXPECT_GT(json["best"][0]["run"]["days"]["expected"].get<double>(), 0);
}

TEST(PlanText, ShowsTheBestAndEveryRule) {
  const Plan& plan = SmallPlan();
  const std::string text = PlanText(plan);
  EXPECT_THAT(text, HasSubstr(LayoutLine(plan.best[0].training)));
  EXPECT_THAT(text, HasSubstr("Proved: every bound"));
  EXPECT_THAT(text, HasSubstr("layers alone take longer"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(PlanText, SaysWhatTheSmallestNeedsWhereNothingFits) {
  PlanRequest job = SmallJob();
  job.cluster.device.memory = Bytes(1 << 28);
  const std::string text = PlanText(MakePlan(job, {}));
  EXPECT_THAT(text, HasSubstr("No layout fits the GPUs' memory."));
  EXPECT_THAT(text, HasSubstr("of 0.25 GiB on the fullest GPU: tensor="));
}

// A budget that no run meets is named, in words and in JSON; memory is not.
TEST(PlanText, NamesTheBudgetWhereThatIsTheCause) {
  PlanRequest job = SmallJob();
  planner::search::Goal goal;
  goal.run.tokens = 1e11;
  goal.budget_dollars = 100;
  const uint32_t counts[] = {8, 16};
  ASSERT_EQ(SetGpus(counts, goal, job), Status());
  PlanOptions options;
  options.tokens = options.run.tokens = 1e11;
  const Plan plan = MakePlan(job, options);
  const std::string text = PlanText(plan);
  EXPECT_THAT(text, HasSubstr("all of them cost more than the budget of $100.00"));
  EXPECT_THAT(text, HasSubstr("The cheapest run takes 8 GPUs"));
  EXPECT_THAT(text, HasSubstr("The fastest run takes 16 GPUs"));
  EXPECT_THAT(text, Not(HasSubstr("No layout fits")));
  const auto json = ToJson(plan);
  EXPECT_EQ(json["obstacle"]["cause"], "budget");
  EXPECT_EQ(json["obstacle"]["budget_dollars"], 100);
  EXPECT_GT(json["obstacle"]["cheapest"]["run"]["dollars"]["expected"].get<double>(), 100);
  EXPECT_TRUE(json["obstacle"].contains("fastest"));
}

TEST(PlanText, SaysHowFarALimitedSearchMayBeFromTheOptimum) {
  PlanOptions options;
  options.search.effort = 2'000;
  const Plan plan = MakePlan(SmallJob(), options);
  ASSERT_TRUE(plan.outcome.limited);
  ASSERT_FALSE(plan.best.empty());
  EXPECT_THAT(PlanText(plan), HasSubstr("The search ended at its limit: no layout is better by"));
  const auto json = ToJson(plan);
  EXPECT_EQ(json["search"]["finished"], false);
  EXPECT_EQ(json["search"]["gap"].get<double>(), plan.outcome.gap());
  EXPECT_GT(plan.outcome.gap(), 0);
  EXPECT_EQ(ToJson(SmallPlan())["search"]["gap"], 0);
}

std::string Why(const std::string& layout) {
  planner::search::Fixed named;
  EXPECT_EQ(planner::search::ParseFixed(layout, named), Status());
  return WhyNot(SmallPlan(), named, AllOptions());
}

TEST(WhyNot, NamesTheRuleTheMemoryOrTheParts) {
  EXPECT_THAT(Why("tensor=3"), HasSubstr("It cannot run: "));
  EXPECT_THAT(Why("tensor=3"), HasSubstr("tensor 3"));
  EXPECT_THAT(Why("tensor=16"), HasSubstr("tensor collectives +"));
  EXPECT_THAT(Why("tensor=16"), HasSubstr("leaves the NVLink island of 8"));
  EXPECT_THAT(Why("micro=1,zero=0,offload=none,recompute=full"), HasSubstr("recompute +"));
}

TEST(WhatIf, ChangesTheAnswerTheWayTheChangePoints) {
  const Plan& plan = SmallPlan();
  const Proposal& best = plan.best.front();
  const auto slower = WhatIf(plan.job, best, "recompute=full", AllOptions());
  ASSERT_TRUE(slower.ok()) << slower.status();
  EXPECT_GT(slower->evaluation.step, best.evaluation.step);
  EXPECT_LT(slower->evaluation.device_memory, best.evaluation.device_memory);
  const auto fewer = WhatIf(plan.job, best, "devices=8", AllOptions());
  ASSERT_TRUE(fewer.ok()) << fewer.status();
  EXPECT_GT(fewer->evaluation.step, best.evaluation.step);
  EXPECT_EQ(WhatIf(plan.job, best, "devices=17", AllOptions()).status().code(),
            Code::kInvalidArgument);
}

// The fullest moment that is drawn is what the evaluation says, up to what the last stage's loss
// adds for a moment.
TEST(Timeline, ReachesThePeakOfEachStage) {
  PlanRequest job = SmallJob();
  job.fixed.pipeline = 4;
  job.fixed.virtual_pipeline = 1;
  job.fixed.schedule = spec::PipelineSchedule::kOneForwardOneBackward;
  const Plan plan = MakePlan(job, AllOptions());
  ASSERT_TRUE(plan.timeline);
  ASSERT_EQ(plan.timeline->memory.size(), 4u);
  for (const auto& curve : plan.timeline->memory) {
    double most = 0;
    for (const auto& [at, bytes] : curve.points) most = std::max(most, bytes);
    const auto total =
        static_cast<double>(plan.best[0].evaluation.stages[curve.stage].memory.total().count());
    EXPECT_NEAR(most / total, 1, 0.02) << "stage " << curve.stage;
  }
}

}  // namespace
}  // namespace longhaul::frontend
