#include "service/agent/check/device_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace longhaul::service {
namespace {

TEST(DeviceLines, AreMeasurementsOrFailures) {
  const auto lines = ParseDeviceLines(
      "{\"name\": \"cuda:0\", \"model\": \"H100\", \"value\": 612.5, \"unit\": \"TFLOP/s\"}\n"
      "\r\n"
      "{\"name\": \"cuda:0 latency\", \"value\": 7, \"higher_is_better\": false}\r\n"
      "{\"name\": \"cuda:3\", \"failed\": \"2 ECC errors\"}");  // without an end of line
  ASSERT_TRUE(lines.ok()) << lines.status();
  ASSERT_EQ(lines->size(), 3U);
  EXPECT_EQ((*lines)[0].name(), "cuda:0");
  EXPECT_EQ((*lines)[0].model(), "H100");
  EXPECT_EQ((*lines)[0].value(), 612.5);
  EXPECT_EQ((*lines)[0].unit(), "TFLOP/s");
  EXPECT_TRUE((*lines)[0].higher_is_better());
  EXPECT_FALSE((*lines)[1].higher_is_better());
  EXPECT_EQ((*lines)[1].value(), 7);
  EXPECT_EQ((*lines)[2].failed(), "2 ECC errors");
}

TEST(DeviceLines, OfNoOutputAreNone) {
  ASSERT_TRUE(ParseDeviceLines("").ok());
  EXPECT_TRUE(ParseDeviceLines("\n\n")->empty());
}

TEST(DeviceLines, AWrongLineIsNamedWithTheReason) {
  const std::string good = "{\"name\": \"a\", \"value\": 1}\n";
  std::string many;
  for (size_t i = 0; i <= kMostDeviceLines; ++i) {
    many += "{\"name\": \"" + std::to_string(i) + "\", \"value\": 1}\n";
  }
  const struct {
    std::string output;
    const char* says;
  } kRows[] = {
      {good + "Segmentation fault", "line 2: it is not a JSON object: Segmentation fault"},
      {"{\"name\": \"a\", \"value\": 1", "line 1: it is not a JSON object"},
      {"[1]", "it is not a JSON object"},
      {good + "\n" + good, "line 3: the name \"a\" occurs twice"},
      {"{\"value\": 1}", "it has no \"name\""},
      {"{\"name\": 3, \"value\": 1}", "\"name\" is not a text"},
      {"{\"name\": \"\", \"value\": 1}", "\"name\" has 0 bytes, expected 1 to 80"},
      {"{\"name\": \"" + std::string(81, 'n') + "\"}", "\"name\" has 81 bytes, expected 1 to 80"},
      {"{\"name\": \"a\"}", "neither \"value\" nor \"failed\""},
      {"{\"name\": \"a\", \"value\": 1, \"failed\": \"b\"}", "expected one of them"},
      {"{\"name\": \"a\", \"value\": \"1\"}", "\"value\" is not a number"},
      {"{\"name\": \"a\", \"value\": true}", "\"value\" is not a number"},
      {"{\"name\": \"a\", \"value\": NaN}", "it is not a JSON object"},
      {"{\"name\": \"a\", \"value\": 1e999}", "it is not a JSON object"},
      {"{\"name\": \"a\", \"value\": 0}", "\"value\" is 0, expected a number above 0"},
      {"{\"name\": \"a\", \"value\": -1.5}", "\"value\" is -1.5, expected a number above 0"},
      {"{\"name\": \"a\", \"value\": 1, \"unit\": 7}", "\"unit\" is not a text"},
      {"{\"name\": \"a\", \"failed\": \"\"}", "\"failed\" has 0 bytes"},
      {"{\"name\": \"a\", \"value\": 1, \"higher_is_better\": 1}", "neither true nor false"},
      {"{\"name\": \"a\", \"valeu\": 1}", "the unknown key \"valeu\""},
      {std::string(kLongestDeviceLine + 1, '['), "it has 2049 bytes, at most 2048 are allowed"},
      {std::string(kLongestDeviceLine, '['), "it is not a JSON object"},
      {many, "line 129: more than 128 measurements"},
  };
  for (const auto& row : kRows) {
    const auto lines = ParseDeviceLines(row.output);
    ASSERT_FALSE(lines.ok()) << row.output;
    EXPECT_EQ(lines.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(lines.status().message(), testing::HasSubstr(row.says));
  }
}

}  // namespace
}  // namespace longhaul::service
