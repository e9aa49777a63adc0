#include "io/log/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::io {
namespace {

constexpr const char* kVariable = "LONGHAUL_LOG";

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

std::unique_ptr<spdlog::formatter> MakeFormatter() {
  return std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%eZ %l %n: %v",
                                                     spdlog::pattern_time_type::utc, "\n");
}

std::shared_ptr<spdlog::sinks::stderr_sink_mt> MakeSink() {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  sink->set_formatter(MakeFormatter());
  sink->set_level(spdlog::level::info);
  const char* word = std::getenv(kVariable);
  if (word == nullptr || *word == '\0') return sink;
  const Result<LogLevel> level = ParseLogLevel(word);
  if (level.ok()) {
    sink->set_level(ToSpdlog(*level));
  } else {
    const std::string text = std::string(kVariable) + ": " + level.status().message();
    sink->log({"log", spdlog::level::warn, text});
  }
  return sink;
}

// Of the process, as standard error is. Never destroyed, because threads may log until the end.
spdlog::sinks::stderr_sink_mt& Sink() {
  static auto* const sink = new std::shared_ptr(MakeSink());
  return **sink;
}

}  // namespace

Result<LogLevel> ParseLogLevel(std::string_view word) {
  if (word == "debug") return LogLevel::kDebug;
  if (word == "info") return LogLevel::kInfo;
  if (word == "warning") return LogLevel::kWarning;
  if (word == "error") return LogLevel::kError;
  if (word == "off") return LogLevel::kOff;
  return InvalidArgument("unknown log level " + Printable(word) +
                         ", expected debug, info, warning, error or off");
}

void SetLogLevel(LogLevel level) { Sink().set_level(ToSpdlog(level)); }

void Log(LogLevel level, std::string_view component, std::string_view text) {
  CHECK(level < LogLevel::kOff);
  spdlog::sinks::stderr_sink_mt& sink = Sink();
  if (!sink.should_log(ToSpdlog(level))) return;
  sink.log({spdlog::string_view_t(component.data(), component.size()), ToSpdlog(level),
            spdlog::string_view_t(text.data(), text.size())});
}

std::string LogLine(Instant now, LogLevel level, std::string_view component,
                    std::string_view text) {
  const auto time = std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(ToNanoseconds(now))));
  spdlog::memory_buf_t line;
  MakeFormatter()->format({time,
                           {},
                           spdlog::string_view_t(component.data(), component.size()),
                           ToSpdlog(level),
                           spdlog::string_view_t(text.data(), text.size())},
                          line);
  return {line.data(), line.size()};
}

}  // namespace longhaul::io
