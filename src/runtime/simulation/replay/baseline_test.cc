#include "runtime/simulation/replay/baseline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace longhaul::runtime::simulation::baseline_test {
namespace {

// Detection 10 s, 20 s, 30 s; 5 s to diagnose, 40 s to restart, 60 s more to replace; reload 20 s;
// a checkpoint of 2 s every 100 s.
constexpr BaselineSystem kSystem = {"test", 10s, 20s, 30s, 5s, 40s, 60s, 20s, 100s, 2s, true, true};

TracedFault At(Duration at, FaultScope scope, bool silent, Duration notice, Duration repair) {
  return {at, "x", 1, scope, silent, notice, repair};
}

// The first start takes 40 + 30 + 20 s. Up to 1,000 s there are 910 s, 8 x (100 + 2) s with
// checkpoints and 94 s without one.
TEST(Baseline, AgreesWithARunWorkedByHand) {
  const struct {
    const char* name;
    TracedFault fault;
    double lost_s, detect_s, decide_s, restart_s;
  } kRows[] = {
      {"exit", At(1000s, FaultScope::kProcess, false, 0s, 0s), 94, 10, 0, 80},
      {"hang", At(1000s, FaultScope::kProcess, true, 0s, 0s), 94, 30, 0, 80},
      {"device", At(1000s, FaultScope::kDevice, false, 0s, 0s), 94, 10, 5, 80},
      {"device that stays broken", At(1000s, FaultScope::kDevice, false, 0s, 60s), 94, 10, 5, 140},
      {"node", At(1000s, FaultScope::kNode, false, 0s, 60s), 94, 10, 5, 140},
      {"silent node", At(1000s, FaultScope::kNode, true, 0s, 60s), 94, 20, 5, 140},
      {"planned", At(1000s, FaultScope::kNode, false, 60s, 60s), 0, 0, 0, 140},
      {"outage", At(1000s, FaultScope::kJob, true, 0s, 500s), 94, 500, 0, 80},
      {"damage", At(1000s, FaultScope::kState, true, 0s, 300s), 394, 0, 0, 80},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.name);
    const TimeParts parts = RunBaseline(kSystem, {row.fault}, 2000s);
    EXPECT_NEAR(parts.Total(), 2000, 1e-6);
    EXPECT_NEAR(parts[LossPart::kLostWork], row.lost_s, 1e-6);
    EXPECT_NEAR(parts[LossPart::kDetect], row.detect_s, 1e-6);
    EXPECT_NEAR(parts[LossPart::kDecide], row.decide_s, 1e-6);
    EXPECT_NEAR(parts[LossPart::kRestart], row.restart_s, 1e-6);
    EXPECT_NEAR(parts[LossPart::kGroups], 60, 1e-6);
    EXPECT_NEAR(parts[LossPart::kRestore], 40, 1e-6);
  }
}

TEST(Baseline, AnOperatorFindsWhatTheDiagnosisDoesNot) {
  BaselineSystem system = kSystem;
  system.locates = false;
  const TimeParts parts =
      RunBaseline(system, {At(1000s, FaultScope::kDevice, false, 0s, 60s)}, 5000s);
  EXPECT_NEAR(parts[LossPart::kDecide], 5 + ToSeconds(kOperator), 1e-6);
}

TEST(Baseline, SlowStepsLastLongerAndThenTheDeviceFails) {
  const TimeParts parts =
      RunBaseline(kSystem, {At(1000s, FaultScope::kSlowDevice, false, 300s, 0s)}, 2000s);
  EXPECT_NEAR(parts.Total(), 2000, 1e-6);
  // 300 s less the checkpoints in that time, of which a third is lost to the slow pace.
  EXPECT_NEAR(parts[LossPart::kSlow], (300 - 4) / 3.0, 1.0);
  EXPECT_NEAR(parts[LossPart::kDetect], 10, 1e-6);
}

TEST(Baseline, AFailureDuringTheRecoveryBeginsItAnew) {
  const std::vector<TracedFault> both = {At(1000s, FaultScope::kProcess, false, 0s, 0s),
                                         At(1030s, FaultScope::kProcess, false, 0s, 0s)};
  const TimeParts parts = RunBaseline(kSystem, both, 2000s);
  EXPECT_NEAR(parts.Total(), 2000, 1e-6);
  EXPECT_NEAR(parts[LossPart::kLostWork], 94, 1e-6) << "there is nothing more to lose";
  EXPECT_NEAR(parts[LossPart::kDetect], 20, 1e-6);
  EXPECT_NEAR(parts[LossPart::kRestart], 40 + 20 + 40, 1e-6);
}

// The fitted restart of the published setting leads to the published figure.
TEST(Baseline, ThePublishedSettingGivesNinetyPercentWithinTwo) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const auto trace = GenerateFaultTrace({}, seed);
    const TimeParts parts = RunBaseline(kBaselines[0], trace, kPublishedLength);
    EXPECT_NEAR(parts.Total(), ToSeconds(kPublishedLength), 1e-3);
    EXPECT_GE(parts.Effective(), 0.88) << "seed " << seed;
    EXPECT_LE(parts.Effective(), 0.92) << "seed " << seed;
  }
}

TEST(Baseline, EverySystemsPartsSumToTheTimeOfTheRun) {
  const auto trace = GenerateFaultTrace({}, 1);
  for (const BaselineSystem& system : kBaselines) {
    const TimeParts parts = RunBaseline(system, trace, kPublishedLength);
    EXPECT_NEAR(parts.Total(), ToSeconds(kPublishedLength), 1e-3) << system.name;
    for (const double seconds : parts.seconds) EXPECT_GE(seconds, 0) << system.name;
  }
}

}  // namespace
}  // namespace longhaul::runtime::simulation::baseline_test
