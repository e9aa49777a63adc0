// Each cause of an empty proposal, alone and behind others.
#include "planner/search/obstacle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/search/gpus.h"
#include "planner/search/settings.h"
#include "planner/search/why_not.h"
#include "spec/cluster/device_cluster.h"
#include "spec/model/model_reader.h"

namespace longhaul::planner::search {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Limits {
  double memory_gib = 80;
  const char* fixed = "";
  std::optional<double> days;
  std::optional<double> dollars;
};

PlanOptions OptionsOf() {
  PlanOptions options;
  options.tokens = options.run.tokens = 1e11;
  return options;
}

PlanRequest JobOf(const Limits& limits) {
  PlanRequest job;
  job.model = *spec::FindModel("llama-3.2-1b");
  job.cluster = *spec::ParseClusterName("h100-sxm:32");
  job.cluster.device.memory = Bytes(static_cast<int64_t>(limits.memory_gib * (1 << 30)));
  job.base.batch.global = 256;
  job.base.software.framework = "megatron-core";
  job.recompute_by_stage = false;
  EXPECT_EQ(ParseFixed("context=1,pipeline=1,offload=none,recompute=none", job.fixed), Status());
  if (*limits.fixed != '\0') {
    EXPECT_EQ(ParseFixed(limits.fixed, job.fixed), Status());
  }
  Goal goal;
  goal.run = OptionsOf().run;
  goal.deadline_days = limits.days;
  goal.budget_dollars = limits.dollars;
  const uint32_t counts[] = {8, 16, 32};
  EXPECT_EQ(SetGpus(counts, goal, job), Status());
  return job;
}

// On 8, 16 and 32 GPUs at any rate: what the fastest and the cheapest run take.
struct Ends {
  Proposal fastest;
  Proposal cheapest;
};

const Ends& EndsOf() {
  static const Ends kEnds = [] {
    Limits limits;
    limits.days = 1e-6;
    limits.dollars = 0.01;
    const Plan plan = MakePlan(JobOf(limits), OptionsOf());
    return Ends{*plan.obstacle->fastest, *plan.obstacle->cheapest};
  }();
  return kEnds;
}

TEST(Obstacle, CheapestAndFastestAreApart) {
  const Ends& ends = EndsOf();
  EXPECT_EQ(ends.fastest.cluster.devices, 32u);
  EXPECT_EQ(ends.cheapest.cluster.devices, 8u);
  EXPECT_LT(ends.fastest.run->days.expected, ends.cheapest.run->days.expected);
  EXPECT_LT(ends.cheapest.run->dollars.expected, ends.fastest.run->dollars.expected);
}

TEST(Obstacle, NamesTheFirstCauseOfEveryCombination) {
  const double days = EndsOf().fastest.run->days.expected;
  const double dollars = EndsOf().cheapest.run->dollars.expected;
  constexpr const char* kNoFramework = "order=data-tensor-context-pipeline,tensor=2,data=4";
  const struct {
    const char* name;
    Limits limits;
    std::optional<Cause> want;  // nothing: a layout is proposed
  } kRows[] = {
      {"no limit", {80, "", {}, {}}, std::nullopt},
      {"both limits are wide", {80, "", 2 * days, 2 * dollars}, std::nullopt},
      {"time", {80, "", days / 2, {}}, Cause::kDeadline},
      {"money", {80, "", {}, dollars / 2}, Cause::kBudget},
      {"time, with money to spare", {80, "", days / 2, 100 * dollars}, Cause::kDeadline},
      {"money, with time to spare", {80, "", 100 * days, dollars / 2}, Cause::kBudget},
      {"time and money", {80, "", days / 2, dollars / 2}, Cause::kDeadlineAndBudget},
      {"time with money", {80, "", 1.001 * days, 1.001 * dollars}, Cause::kDeadlineWithBudget},
      {"memory", {1, "", {}, {}}, Cause::kMemory},
      {"memory before time", {1, "", days / 2, {}}, Cause::kMemory},
      {"memory before money", {1, "", {}, dollars / 2}, Cause::kMemory},
      {"memory before both", {1, "", days / 2, dollars / 2}, Cause::kMemory},
      {"framework", {80, kNoFramework, {}, {}}, Cause::kFramework},
      {"framework before both", {80, kNoFramework, days / 2, dollars / 2}, Cause::kFramework},
      {"memory before framework", {1, kNoFramework, {}, {}}, Cause::kMemory},
      {"no legal layout", {80, "tensor=3", {}, {}}, Cause::kNotLegal},
      {"no legal layout before all", {1, "tensor=3", days / 2, dollars / 2}, Cause::kNotLegal},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.name);
    const Plan plan = MakePlan(JobOf(row.limits), OptionsOf());
    ASSERT_EQ(plan.obstacle.has_value(), row.want.has_value());
    EXPECT_EQ(plan.best.empty(), row.want.has_value());
    if (!row.want) continue;
    EXPECT_EQ(ToString(plan.obstacle->cause), ToString(*row.want));
    const std::string text = ObstacleText(plan);
    EXPECT_EQ(text.find("memory") != text.npos, row.want == Cause::kMemory) << text;
    const bool limit = plan.obstacle->fastest.has_value();
    EXPECT_EQ(limit, *row.want >= Cause::kDeadline);
    EXPECT_EQ(text.find("The cheapest run takes 8 GPUs") != text.npos, limit) << text;
    EXPECT_EQ(text.find("The fastest run takes 32 GPUs") != text.npos, limit) << text;
    const bool money = *row.want == Cause::kBudget || *row.want > Cause::kBudget;
    EXPECT_EQ(text.find("the budget of $") != text.npos, money) << text;
    EXPECT_EQ(text.find("the deadline of") != text.npos, limit && *row.want != Cause::kBudget)
        << text;
  }
}

// A named layout that fits and is only too late or too dear is not called too large.
TEST(WhyNot, SaysWhichLimitANamedLayoutMisses) {
  const double days = EndsOf().fastest.run->days.expected;
  const double dollars = EndsOf().cheapest.run->dollars.expected;
  const struct {
    Limits limits;
    bool late;
    bool dear;
  } kRows[] = {
      {{80, "", days / 2, {}}, true, false},
      {{80, "", {}, dollars / 2}, false, true},
      {{80, "", days / 2, dollars / 2}, true, true},
      {{80, "", {}, {}}, false, false},
  };
  Fixed named;
  ASSERT_EQ(ParseFixed("devices=16,tensor=2,context=1,pipeline=1,recompute=none", named), Status());
  for (const auto& row : kRows) {
    const Plan plan = MakePlan(JobOf(row.limits), OptionsOf());
    const std::string text = WhyNot(plan, named, OptionsOf());
    EXPECT_EQ(text.find("the deadline is") != text.npos, row.late) << text;
    EXPECT_EQ(text.find("the budget is") != text.npos, row.dear) << text;
    EXPECT_THAT(text, Not(HasSubstr("does not fit")));
  }
}

}  // namespace
}  // namespace longhaul::planner::search
