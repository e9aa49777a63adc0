#include "runtime/simulation/replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/simulation/replay/sensitivity.h"

namespace longhaul::runtime::simulation {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

ReplaySettings Small() {
  ReplaySettings settings;
  settings.nodes = 8;
  settings.spares = 3;
  settings.length = 6h;
  return settings;
}

SimulationResult WithOne(FaultScope scope, bool silent, Duration notice, Duration repair) {
  const TracedFault fault{1h, "x", 3, scope, silent, notice, repair};
  return Simulate(ReplaySimulation(Small(), {fault}, 1));
}

// The published failures of two days on few nodes, with all options.
SimulationOptions TwoDays(uint64_t seed) {
  ReplaySettings settings = Small();
  settings.nodes = 24;
  settings.length = 48h;
  TraceOptions options;
  options.nodes = settings.nodes;
  options.length = settings.length;
  options.factor = 3;
  options.racks = options.lemons = true;
  return ReplaySimulation(settings, GenerateFaultTrace(options, seed), seed);
}

// What each kind of failure is to the controller, how long it takes to notice it, and what it does.
TEST(Replay, EachScopeLeadsToTheExpectedReaction) {
  const struct {
    const char* name;
    FaultScope scope;
    bool silent;
    Duration notice, repair;
    const char* fault_class;
    double detect_s, lost_s;  // at most
    const char* action;
  } kRows[] = {
      {"process", FaultScope::kProcess, false, 0s, 0s, "error", 0.1, 90, "restart from memory"},
      {"hang", FaultScope::kProcess, true, 0s, 0s, "hang", 40, 130, "restart from memory"},
      {"device", FaultScope::kDevice, false, 0s, 0s, "error", 0.1, 90, "restart from memory"},
      {"link", FaultScope::kLink, true, 0s, 0s, "hang", 40, 130, "restart from memory"},
      {"node", FaultScope::kNode, false, 0s, 90min, "node", 0.1, 90, "replace the node"},
      {"silent node", FaultScope::kNode, true, 0s, 90min, "node", 2, 90, "replace the node"},
      {"rack", FaultScope::kRack, true, 0s, 90min, "node", 2, 90, "replace the node"},
      {"storage", FaultScope::kStorage, false, 0s, 0s, "error", 0.1, 90, "restart from memory"},
      {"NaN", FaultScope::kState, false, 0s, 0s, "error", 0.1, 90, "restart from memory"},
      {"outage", FaultScope::kJob, true, 0s, 10min, "hang", 40, 760, "restart from memory"},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.name);
    const SimulationResult result = WithOne(row.scope, row.silent, row.notice, row.repair);
    ASSERT_THAT(result.violations, IsEmpty());
    ASSERT_GE(result.status.faults_size(), 1);
    const proto::Fault& fault = result.status.faults(0);
    EXPECT_EQ(fault.class_name(), row.fault_class) << fault.what();
    EXPECT_THAT(fault.action(), HasSubstr(row.action));
    EXPECT_LT(1e-9 * static_cast<double>(fault.detected_at_ns() - fault.happened_at_ns()),
              row.detect_s);
    ASSERT_EQ(result.causes.size(), 1u);
    EXPECT_EQ(result.causes.at("x").count, 1u);
    EXPECT_GT(ToSeconds(result.causes.at("x").lost), 30);
    EXPECT_LT(ToSeconds(result.causes.at("x").lost), row.lost_s);
    EXPECT_GT(result.status.highest_step(), 3300u);
  }
}

TEST(Replay, AnnouncedMaintenanceMovesTheJobWithoutAFault) {
  const SimulationResult result = WithOne(FaultScope::kNode, false, 10min, 90min);
  EXPECT_THAT(result.violations, IsEmpty());
  EXPECT_EQ(result.status.faults_size(), 0);
  EXPECT_EQ(result.attempts, 2u);
  EXPECT_EQ(result.status.moves(), 1u);
  EXPECT_LT(ToSeconds(result.causes.at("x").lost), 70);
  for (const proto::NodeStatus& node : result.nodes) {
    EXPECT_EQ(node.condition(), "ready") << node.name();
  }
}

// Each restart hangs again, for all nodes alike, until the operator drains the node.
TEST(Replay, AHangThatNeitherARestartNorACheckCuresWaitsForTheOperator) {
  ReplaySettings settings = Small();
  settings.check_shows = 0;
  const TracedFault fault{1h, "x", 3, FaultScope::kDevice, true, 0s, 90min};
  for (const Duration reaction : {5min, 20min}) {
    settings.operator_reaction = reaction;
    const SimulationResult result = Simulate(ReplaySimulation(settings, {fault}, 1));
    EXPECT_THAT(result.violations, IsEmpty());
    const double lost_s = ToSeconds(result.causes.at("x").lost);
    EXPECT_GT(lost_s, ToSeconds(reaction));
    EXPECT_LT(lost_s, ToSeconds(reaction) + 120);
  }
}

// From the first failure on, the controller knows how long a restart takes.
TEST(Replay, AHangThatARestartDoesNotCureIsLocatedAfterOneRestart) {
  ReplaySettings settings = Small();
  settings.check_shows = 1;
  const TracedFault first{30min, "first", 1, FaultScope::kProcess, false, 0s, 0s};
  for (const FaultScope scope : {FaultScope::kDevice, FaultScope::kLink}) {
    for (const uint64_t seed : {1, 2, 3, 4}) {  // devices hang at their initialization, or later
      const TracedFault fault{1h, "x", 3, scope, true, 0s, 90min};
      const SimulationResult result = Simulate(ReplaySimulation(settings, {first, fault}, seed));
      EXPECT_THAT(result.violations, IsEmpty());
      ASSERT_EQ(result.status.faults_size(), 3);
      EXPECT_EQ(result.status.faults(1).node(), "");
      EXPECT_NE(result.status.faults(2).node(), "");
      EXPECT_THAT(result.status.faults(2).what(),
                  testing::AnyOf(HasSubstr("the check of its nodes names"),
                                 HasSubstr("behind the others: node-")));
      EXPECT_THAT(result.status.faults(2).action(), HasSubstr("replace the node"));
      EXPECT_LT(ToSeconds(result.causes.at("x").lost), 330);
    }
  }
}

// Two failures on one node without a step in between.
TEST(Replay, ADeviceThatStaysBrokenInServiceIsLeftBehind) {
  const SimulationResult result = WithOne(FaultScope::kDevice, false, 0s, 90min);
  EXPECT_THAT(result.violations, IsEmpty());
  EXPECT_EQ(result.status.faults_size(), 2);
  EXPECT_THAT(result.status.faults(0).action(), HasSubstr("restart from memory"));
  EXPECT_THAT(result.status.faults(1).action(), HasSubstr("replace the node"));
  EXPECT_LT(ToSeconds(result.causes.at("x").lost), 200);
}

TEST(Replay, ASlowDeviceStretchesTheStepsAndIsNotLeftToTheProductiveTime) {
  const SimulationResult result = WithOne(FaultScope::kSlowDevice, false, 10min, 0s);
  EXPECT_THAT(result.violations, IsEmpty());
  EXPECT_NEAR(ToSeconds(result.slow_excess), 600.0 / 3, 20);  // half more for 400 s of steps
  EXPECT_NEAR(PartsOf(result, 6h)[LossPart::kSlow], ToSeconds(result.slow_excess), 1);
  ASSERT_EQ(result.status.faults_size(), 1);
}

TEST(Replay, DamageThatIsFoundLateCostsTheWorkSinceThen) {
  const SimulationResult result = WithOne(FaultScope::kState, true, 0s, 30min);
  EXPECT_THAT(result.violations, IsEmpty());
  EXPECT_GT(result.redone_by_hand, 30min);
  EXPECT_LT(result.redone_by_hand, 32min);
  EXPECT_GT(PartsOf(result, 6h)[LossPart::kLostWork], 1800);
}

TEST(Replay, EveryFailureStrikesAndThePartsSumToTheTimeOfTheRun) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const SimulationOptions options = TwoDays(seed);
    const SimulationResult result = Simulate(options);
    ASSERT_THAT(result.violations, IsEmpty());
    uint64_t struck = 0;
    Duration lost{};
    for (const auto& [cause, cost] : result.causes) {
      struck += cost.count;
      lost += cost.lost;
    }
    EXPECT_EQ(struck, options.trace.size());
    const TimeParts parts = PartsOf(result, options.length);
    EXPECT_NEAR(parts.Total(), result.status.ledger().wall_seconds(), 1e-3);
    for (const double seconds : parts.seconds) EXPECT_GE(seconds, 0);
    // The record of the training job and the controller's ledger are independent of each other.
    // Snapshots and the 0.5 % by which steps vary are in no interruption.
    const double outside = parts.Total() - parts[LossPart::kProductive] -
                           parts[LossPart::kCheckpoint] - parts[LossPart::kOther];
    EXPECT_NEAR(ToSeconds(lost), outside, 0.04 * outside + 60);
  }
}

TEST(Replay, TheSameSeedGivesTheSameLogAlsoFromAFile) {
  const SimulationOptions options = TwoDays(5);
  const SimulationResult first = Simulate(options);
  EXPECT_EQ(Simulate(TwoDays(5)).log_hash, first.log_hash);
  EXPECT_NE(Simulate(TwoDays(6)).log_hash, first.log_hash);
  SimulationOptions read = options;
  const auto trace = ParseFaultTrace(FormatFaultTrace(options.trace), "t.csv", {24, 48h});
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  read.trace = *trace;
  const SimulationResult again = Simulate(read);
  EXPECT_EQ(again.log_hash, first.log_hash);
  EXPECT_EQ(again.state_hash, first.state_hash);
}

TEST(Sensitivity, EachVariantChangesOneConstantAndOnlyTheFirstNone) {
  const auto variants = SensitivityVariants({}, {});
  ASSERT_GT(variants.size(), 20u);
  EXPECT_EQ(variants[0].constant, "");
  for (size_t i = 1; i < variants.size(); ++i) {
    EXPECT_NE(variants[i].constant, "");
    EXPECT_NE(variants[i].value, variants[i - 1].value);
  }
}

TEST(Sensitivity, MoreFailuresAndSlowerGroupsCostTime) {
  ReplaySettings settings = Small();
  settings.length = 24h;
  TraceOptions options;
  options.nodes = settings.nodes;
  options.length = settings.length;
  double base = 0, doubled = 0, slower = 0;
  for (const Variant& variant : SensitivityVariants(settings, options)) {
    if (variant.constant.empty()) base = EffectiveTimeOf(variant, 1);
    if (variant.value == "x 2") doubled = EffectiveTimeOf(variant, 1);
    if (variant.value == "60 s" && variant.constant == "group set-up") {
      slower = EffectiveTimeOf(variant, 1);
    }
  }
  EXPECT_LT(doubled, base);
  EXPECT_LT(slower, base);
  EXPECT_GT(slower, 0.9);
}

}  // namespace
}  // namespace longhaul::runtime::simulation
