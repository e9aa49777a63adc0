#include "io/log/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace longhaul::io {
namespace {

using testing::MatchesRegex;

// What is written to standard error while it lives.
class Captured {
 public:
  Captured() { testing::internal::CaptureStderr(); }
  std::string Text() { return testing::internal::GetCapturedStderr(); }
};

TEST(Log, WritesTimeLevelComponentAndText) {
  const Instant now = Instant() + std::chrono::milliseconds(1'700'000'000'042);
  EXPECT_EQ(LogLine(LogFormat::kText, now, LogLevel::kWarning, "agent.node-1", "100 % {} of %v"),
            "2023-11-14T22:13:20.042Z warning agent.node-1: 100 % {} of %v\n");
}

TEST(Log, WritesAnObjectIfJsonIsAskedFor) {
  const Instant now = Instant() + std::chrono::milliseconds(1'700'000'000'042);
  EXPECT_EQ(LogLine(LogFormat::kJson, now, LogLevel::kError, "agent.node-1", "a \"b\\\" \xff"),
            "{\"time\":\"2023-11-14T22:13:20.042Z\",\"level\":\"error\","
            "\"component\":\"agent.node-1\",\"text\":\"a \\\"b\\\\\\\" \xef\xbf\xbd\"}\n");
}

TEST(Log, WritesALineToStandardError) {
  Captured captured;
  LogInfo("controller", "the event log can be written again");
  EXPECT_THAT(captured.Text(),
              MatchesRegex("20..-..-..T..:..:..\\....Z info controller: the event log can be "
                           "written again\n"));
}

TEST(Log, LeavesOutWhatIsBelowTheLevel) {
  Captured captured;
  SetLogLevel(LogLevel::kError);
  LogWarning("controller", "left out");
  LogError("controller", "written");
  SetLogLevel(LogLevel::kOff);
  LogError("controller", "left out too");
  SetLogLevel(LogLevel::kInfo);
  LogDebug("controller", "left out as well");
  const std::string text = captured.Text();
  EXPECT_THAT(text, MatchesRegex("[^\n]* error controller: written\n")) << text;
}

// Logs a line with this value of a variable, in a process of its own, because variables are read
// once; what it writes must match.
void ExpectWithVariable(const char* variable, const char* value, const char* written) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv(variable, value, 1);
        LogDebug("controller", "details");
        LogInfo("controller", "seen");
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), written);
}

TEST(LogDeathTest, TakesTheLevelFromTheEnvironment) {
  ExpectWithVariable("LONGHAUL_LOG", "debug", "debug controller: details\n");
}

TEST(LogDeathTest, WarnsOfALevelThatItDoesNotKnow) {
  ExpectWithVariable(
      "LONGHAUL_LOG", "loud",
      "warning log: LONGHAUL_LOG: unknown log level loud, expected debug, info, warning, error or "
      "off\n[^\n]*info controller: seen");
}

TEST(LogDeathTest, TakesTheFormatFromTheEnvironment) {
  ExpectWithVariable("LONGHAUL_LOG_FORMAT", "json",
                     "\"component\":\"controller\",\"text\":\"seen\"}\n");
}

TEST(LogDeathTest, WarnsOfAFormatThatItDoesNotKnow) {
  ExpectWithVariable("LONGHAUL_LOG_FORMAT", "xml",
                     "warning log: LONGHAUL_LOG_FORMAT: unknown log format xml, expected text or "
                     "json\n[^\n]*info controller: seen");
}

TEST(ParseLogLevel, KnowsItsWords) {
  EXPECT_EQ(*ParseLogLevel("off"), LogLevel::kOff);
  EXPECT_EQ(ParseLogLevel("").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ParseLogLevel("INFO").status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace longhaul::io
