#include "planner/local/device_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/local/cost.h"

namespace longhaul::planner::device_file_test {
namespace {

using testing::HasSubstr;

DeviceFile Example() {
  DeviceFile file = ShippedCpu(FlopsPerSecond(1e11));
  file.machine = "AMD EPYC \"quoted\"";
  file.measured_at = "2026-01-02T03:04:05Z";
  file.versions = {{"libtorch", "1.13.0"}, {"longhaul", "0.1"}};
  file.cores = 2;
  file.calibration_s = 61.25;
  return file;
}

std::string With(const std::string& from, const std::string& to) {
  std::string text = ToJson(Example());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(DeviceFile, ComesBackAsItWasWritten) {
  const auto read = ParseDeviceFile(ToJson(Example()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, Example());
  EXPECT_EQ(ToJson(*read), ToJson(Example()));
}

TEST(DeviceFile, SaysWhatIsWrongAndWhere) {
  const struct {
    std::string text;
    const char* want;
  } kRows[] = {
      {"", "not JSON"},
      {"[]", "is not an object"},
      {ToJson(Example()).substr(0, 900), "not JSON, or cut off"},
      {With("longhaul-device", "else"), "format is not"},
      {With("\"version\": 1", "\"version\": 2"), "version 2 is not known here"},
      {With("\"cores\": 2", "\"cores\": 0"), "cores must be a whole number from 1"},
      {With("\"cores\": 2", "\"cores\": -2"), "not -2"},
      {With("\"cores\"", "\"coers\""), "cores is missing"},
      {With("\"quick\": false", "\"quick\": 0"), "quick must be true or false"},
      {With("\"quick\": false", "\"quick\": false, \"quik\": 1"), "did you mean quick?"},
      {With("\"operator\":\"matmul\"", "\"operator\":\"matmull\""), "did you mean matmul?"},
      {With("\"forward_s\":", "\"forward\":"), "figures[0].forward_s is missing"},
      {With("\"m\":64.0", "\"m\":0"), ".m must be a number from 1"},
      {With("\"m\":64.0", "\"m\":1e300"), ".m must be a number from 1"},
      {With("\"m\":64.0", "\"m\":\"64\""), ".m must be a number from 1"},
      {With("\"m\":64.0", "\"m\":64,\"rows\":2"), "rows is not a key"},
  };
  for (const auto& row : kRows) {
    const auto read = ParseDeviceFile(row.text);
    ASSERT_FALSE(read.ok()) << row.want;
    EXPECT_EQ(read.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(read.status().message(), HasSubstr(row.want));
    EXPECT_THAT(read.status().message(), HasSubstr("device file"));
  }
}

TEST(DeviceFile, RefusesOneThatNoCostModelCanWorkWith) {
  DeviceFile file = Example();
  std::erase_if(file.figures, [](const Figure& f) { return f.kind == FigureKind::kOptimizer; });
  EXPECT_THAT(ParseDeviceFile(ToJson(file)).status().message(),
              HasSubstr("0 figures of optimizer, at least 1 are needed: run longhaul calibrate"));
}

}  // namespace
}  // namespace longhaul::planner::device_file_test
