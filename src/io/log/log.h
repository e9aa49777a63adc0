// Log of the long-running processes (controller, agent, snapshot keeper).
//
// A message is one line on standard error: time in UTC, level, component, text.
//   2026-11-23T05:20:11.123Z warning agent.node-1: the controller is unreachable: timed out
// The environment variable LONGHAUL_LOG names the lowest level that is written: debug, info,
// warning, error or off. Without it the level is info. With LONGHAUL_LOG_FORMAT=json a line is a
// JSON object, for programs that collect logs:
//   {"time":"2026-11-23T05:20:11.123Z","level":"warning","component":"agent.node-1","text":"..."}
//
// Thread-safe. A call blocks until the line is written. Leaves out files and their rotation: the
// process that starts another one redirects its standard error. The commands that a person runs
// don't use this log; they print "longhaul: " and the message.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"

namespace longhaul::io {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

enum class LogFormat { kText, kJson };

// Returns the format for a value of LONGHAUL_LOG_FORMAT.
Result<LogFormat> ParseLogFormat(std::string_view word);

// Returns the level for a value of LONGHAUL_LOG.
Result<LogLevel> ParseLogLevel(std::string_view word);

// Replaces the level, for this process. The initial one is that of LONGHAUL_LOG; an unknown word
// there means info, and the first message is preceded by a warning. An unknown word in
// LONGHAUL_LOG_FORMAT means text in the same way.
void SetLogLevel(LogLevel level);

// Writes `text` if `level` is at least the level of this process. Requires level < kOff. A text
// from outside the process must be printable (base/text.h). `component` is a process and, where
// there are several of a kind, its name: "controller", "agent.node-1".
void Log(LogLevel level, std::string_view component, std::string_view text);

inline void LogDebug(std::string_view component, std::string_view text) {
  Log(LogLevel::kDebug, component, text);
}
inline void LogInfo(std::string_view component, std::string_view text) {
  Log(LogLevel::kInfo, component, text);
}
inline void LogWarning(std::string_view component, std::string_view text) {
  Log(LogLevel::kWarning, component, text);
}
inline void LogError(std::string_view component, std::string_view text) {
  Log(LogLevel::kError, component, text);
}

// The line that Log writes, with its line feed.
std::string LogLine(LogFormat format, Instant now, LogLevel level, std::string_view component,
                    std::string_view text);

}  // namespace longhaul::io
