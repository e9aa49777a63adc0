#include "spec/job/fault_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace longhaul::spec {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

TEST(ParseFaultPlan, ReadsEachKindOfFault) {
  const auto plan = ParseFaultPlan(
      "kill worker 1 at step 40; kill agent 2 at step 90;\n"
      "stop worker 0 for 20s at step 120;kill controller at step 7;kill node 3 at step 8");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::vector<PlannedFault> want = {{FaultKind::kKillWorker, 1, 40, {}},
                                          {FaultKind::kKillAgent, 1, 90, {}},
                                          {FaultKind::kStopWorker, 0, 120, 20s},
                                          {FaultKind::kKillController, 0, 7, {}},
                                          {FaultKind::kKillNode, 2, 8, {}}};
  EXPECT_EQ(*plan, want);
}

TEST(ParseFaultPlan, SaysWhatIsWrongAndWhere) {
  const struct {
    const char* plan;
    const char* want;
  } kRows[] = {
      {"", "fault 1 is empty"},
      {"kill worker 1 at step 40;", "fault 2 is empty"},
      {"kill", "lacks 'worker', 'agent', 'node' or 'controller' at its end"},
      {"kil worker 1 at step 4", "did you mean 'kill'?"},
      {"kill wroker 1 at step 4", "did you mean 'worker'?"},
      {"kill worker one at step 4", "has 'one' where a worker's rank belongs"},
      {"kill worker -1 at step 4", "has '-1' where a worker's rank belongs"},
      {"kill worker 5000000000 at step 4", "a worker's rank out of range"},
      {"kill agent 0 at step 4", "'0' is not in 1 to 1,000,000"},
      {"kill node 0 at step 4", "'0' is not in 1 to 1,000,000"},
      {"kill worker 1 at step 0", "'0' is not in 1 to 1,000,000,000,000"},
      {"kill worker 1 at step", "lacks a step at its end"},
      {"kill worker 1 at step 4 now", "ends with 'now' too many"},
      {"stop agent 1 for 2s at step 4", "has 'agent' where 'worker' belongs"},
      {"stop worker 1 at step 4", "has 'at' where 'for' belongs"},
      {"stop worker 1 for at step 4", "bad duration"},
      {"stop worker 1 for 0s at step 4", "above zero and at most 1d"},
      {"stop worker 1 for 2d at step 4", "above zero and at most 1d"},
      {"stop worker 1 for 5parsec at step 4", "'5parsec' is not a duration"},
  };
  for (const auto& row : kRows) {
    const auto plan = ParseFaultPlan(row.plan);
    ASSERT_FALSE(plan.ok()) << row.plan;
    EXPECT_EQ(plan.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(plan.status().message(), HasSubstr(row.want)) << row.plan;
  }
}

TEST(ParseFaultPlan, BoundsTheNumberOfFaults) {
  std::string plan = "kill controller at step 1";
  for (int i = 0; i < 999; ++i) plan += ";kill controller at step 1";
  EXPECT_TRUE(ParseFaultPlan(plan).ok());
  EXPECT_FALSE(ParseFaultPlan(plan + ";kill controller at step 1").ok());
}

TEST(FaultPlan, IsReadBackFromItsText) {
  std::mt19937_64 rng(3);
  for (int i = 0; i < 2'000; ++i) {
    PlannedFault fault;
    fault.kind = static_cast<FaultKind>(rng() % 4);
    if (fault.kind != FaultKind::kKillController)
      fault.target = static_cast<uint32_t>(rng() % 1'000'000);
    fault.step = 1 + rng() % 1'000'000'000;
    if (fault.kind == FaultKind::kStopWorker) {
      fault.duration = Duration(1 + static_cast<int64_t>(rng() % 86'400'000'000'000));
    }
    const auto again = ParseFaultPlan(ToString(fault));
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(*again, std::vector{fault}) << ToString(fault);
  }
}

TEST(FaultPlan, WritesDurationsInTheLargestUnitThatIsExact) {
  const std::pair<Duration, const char*> kRows[] = {
      {20s, "20s"}, {1500ms, "1500ms"}, {120s, "2min"}, {24h, "24h"}, {7ns, "7ns"}};
  for (const auto& [duration, want] : kRows) {
    const PlannedFault fault{FaultKind::kStopWorker, 3, 9, duration};
    EXPECT_EQ(ToString(fault), std::string("stop worker 3 for ") + want + " at step 9");
  }
}

}  // namespace
}  // namespace longhaul::spec
