#include "runtime/node_check/device_judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/node_check/node_check.h"

namespace longhaul::runtime::node_check {
namespace {

using testing::HasSubstr;
using Tests = std::vector<std::optional<DeviceTest>>;

DeviceValue Value(double value, const std::string& model = "H100") {
  return {"cuda:0", model, "TFLOP/s", value, true, ""};
}

DeviceTest With(const DeviceValue& value) { return {"", "", {value}}; }

Tests TestsOf(const std::vector<double>& values) {
  Tests tests;
  for (const double value : values) tests.emplace_back(With(Value(value)));
  return tests;
}

std::vector<Verdict> VerdictsOf(const Tests& tests) {
  std::vector<Verdict> verdicts;
  for (const DeviceJudgement& each : JudgeDevices(tests, tests)) verdicts.push_back(each.verdict);
  return verdicts;
}

using enum Verdict;

TEST(DeviceJudge, ADeviceAtHalfOfTheMedianIsSlowWithBothValuesAsEvidence) {
  const Tests tests = TestsOf({600, 610, 300, 590});
  EXPECT_THAT(VerdictsOf(tests), testing::ElementsAre(kGood, kGood, kSlow, kGood));
  const auto judged = JudgeDevices(tests, tests);
  // The better one of the two medians, 590 and 600.
  EXPECT_EQ(judged[2].evidence, "cuda:0 is slow: 300 TFLOP/s, the median is 600 TFLOP/s");
  EXPECT_DOUBLE_EQ(judged[2].values[0].median, 600);
  EXPECT_DOUBLE_EQ(judged[0].values[0].median, 600);
  EXPECT_EQ(judged[0].evidence, "");
}

TEST(DeviceJudge, TheVariationOfGoodDevicesIsNotSlow) {
  EXPECT_THAT(VerdictsOf(TestsOf({600, 480, 620, 410})), testing::Each(kGood));
}

TEST(DeviceJudge, ALowerValueIsBetterWhereTheCommandSaysSo) {
  Tests tests = TestsOf({10, 11, 10, 21});
  for (auto& test : tests) test->values[0].higher_is_better = false;
  EXPECT_THAT(VerdictsOf(tests), testing::ElementsAre(kGood, kGood, kGood, kSlow));
  EXPECT_DOUBLE_EQ(JudgeDevices(tests, tests)[3].values[0].median, 10);
}

TEST(DeviceJudge, OnlyDevicesOfOneModelAndUnitAreCompared) {
  Tests tests = TestsOf({600, 600, 600});
  tests.emplace_back(With(Value(150, "A100")));
  tests.emplace_back(With(Value(140, "A100")));
  tests.emplace_back(With(Value(0.6)));
  tests.back()->values[0].unit = "PFLOP/s";
  EXPECT_THAT(VerdictsOf(tests), testing::Each(kGood));
  EXPECT_EQ(JudgeDevices(tests, tests)[3].values[0].median, 0);
}

TEST(DeviceJudge, TwoNodesAreNotComparedButAFailureCounts) {
  Tests tests = TestsOf({600, 100});
  EXPECT_THAT(VerdictsOf(tests), testing::Each(kGood));
  tests[1]->values.push_back({"cuda:3", "", "", 0, true, "2 ECC errors"});
  tests[0] = std::nullopt;
  EXPECT_THAT(VerdictsOf(tests), testing::ElementsAre(kGood, kBad));
  EXPECT_EQ(JudgeDevices(tests, tests)[1].evidence, "cuda:3: 2 ECC errors");
}

TEST(DeviceJudge, AMistakeOfTheCommandIsNoFaultOfTheNode) {
  Tests tests = TestsOf({600, 600, 600});
  tests[0] = DeviceTest{"", "line 1: it is not a JSON object: hello", {}};
  tests[1] = DeviceTest{"the check command failed: it exited with code 1", "", {}};
  EXPECT_THAT(VerdictsOf(tests), testing::ElementsAre(kUndecided, kBad, kGood));
  EXPECT_THAT(JudgeDevices(tests, tests)[0].evidence, HasSubstr("not a JSON object"));
}

TEST(DeviceJudge, TheEvidenceNamesTheWorstDevicesAndCountsTheRest) {
  Tests tests(3, DeviceTest());
  for (auto& test : tests) {
    for (int device = 0; device < 8; ++device) {
      DeviceValue value = Value(600);
      value.name = "cuda:" + std::to_string(device);
      test->values.push_back(value);
    }
  }
  for (int device = 0; device < 5; ++device) tests[1]->values[size_t(device)].value = 100;
  tests[1]->values[7].failed = "wrong result";
  const DeviceJudgement judged = JudgeDevices(tests, tests)[1];
  EXPECT_EQ(judged.verdict, kBad);
  EXPECT_TRUE(judged.evidence.starts_with("cuda:7: wrong result; cuda:0 is slow"))
      << judged.evidence;
  EXPECT_THAT(judged.evidence, HasSubstr("cuda:2"));
  EXPECT_THAT(judged.evidence, testing::Not(HasSubstr("cuda:3")));
  EXPECT_TRUE(judged.evidence.ends_with("; and 2 more")) << judged.evidence;
}

TEST(DeviceJudge, OfTwoTestsTheBetterValueAndEveryFailureCount) {
  DeviceTest known = With(Value(300));
  AddDeviceTest(known, With(Value(580)));
  EXPECT_EQ(known.values[0].value, 580);
  AddDeviceTest(known, With(Value(200)));
  EXPECT_EQ(known.values[0].value, 580);
  AddDeviceTest(known,
                DeviceTest{"it exited with code 1", "", {{"cuda:1", "", "", 0, true, "gone"}}});
  EXPECT_EQ(known.failure, "it exited with code 1");
  ASSERT_EQ(known.values.size(), 2u);
  EXPECT_EQ(known.values[1].failed, "gone");
}

NodeCheck CheckOf(const Tests& tests) {
  const auto nodes = static_cast<uint32_t>(tests.size());
  NodeCheck check(nodes, {}, 1);
  for (uint32_t node = 0; node < nodes; ++node) {
    check.TakeSelfTest(node, SelfTest());
    check.TakeDeviceTest(node, tests[node]);
  }
  return check;
}

TEST(NodeCheckOfDevices, OnlySlowNodesAreTestedAgainAndASecondGoodTestClearsThem) {
  Tests tests = TestsOf({600, 300, 300, 600, 600});
  tests[4]->failure = "it exited with code 1";
  NodeCheck check = CheckOf(tests);
  EXPECT_THAT(check.NodesWithSlowDevices(), testing::ElementsAre(1, 2));
  check.TakeDeviceTest(1, With(Value(590)));
  check.TakeDeviceTest(2, With(Value(310)));
  const Verdicts verdicts = check.Conclude();
  EXPECT_EQ(verdicts.nodes[0].verdict, kGood);
  EXPECT_EQ(verdicts.nodes[1].verdict, kGood);
  EXPECT_EQ(verdicts.nodes[2].verdict, kSlow);
  EXPECT_THAT(verdicts.nodes[2].evidence, HasSubstr("310 TFLOP/s, the median is 600"));
  EXPECT_EQ(verdicts.nodes[3].verdict, kGood);
  EXPECT_EQ(verdicts.nodes[4].verdict, kBad);
}

TEST(NodeCheckOfDevices, ANodeThatDoesNotAnswerIsUndecided) {
  Tests tests = TestsOf({600, 600, 600});
  tests[1] = std::nullopt;
  const Verdicts verdicts = CheckOf(tests).Conclude();
  EXPECT_EQ(verdicts.nodes[0].verdict, kGood);
  EXPECT_EQ(verdicts.nodes[1].verdict, kUndecided);
  EXPECT_EQ(verdicts.nodes[1].evidence, "did not answer the test of its devices");
}

}  // namespace
}  // namespace longhaul::runtime::node_check
