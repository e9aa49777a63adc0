#include "io/log/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::io {
namespace {

constexpr const char* kLevelVariable = "LONGHAUL_LOG";
constexpr const char* kFormatVariable = "LONGHAUL_LOG_FORMAT";

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

// A message as a JSON object. Bytes that are no UTF-8 are replaced.
class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    spdlog::memory_buf_t time;
    time_.format(message, time);
    const nlohmann::ordered_json object = {{"time", Text(time)},
                                           {"level", Text(to_string_view(message.level))},
                                           {"component", Text(message.logger_name)},
                                           {"text", Text(message.payload)}};
    const std::string text =
        object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    line.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }

 private:
  template <typename Buffer>
  static std::string Text(const Buffer& buffer) {
    return {buffer.data(), buffer.size()};
  }

  spdlog::pattern_formatter time_{"%Y-%m-%dT%H:%M:%S.%eZ", spdlog::pattern_time_type::utc, ""};
};

std::unique_ptr<spdlog::formatter> MakeFormatter(LogFormat format) {
  if (format == LogFormat::kJson) return std::make_unique<JsonFormatter>();
  return std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%eZ %l %n: %v",
                                                     spdlog::pattern_time_type::utc, "\n");
}

// Takes a variable of the environment that is set and not empty; warns of a value that is wrong.
template <typename Value, typename Take>
void TakeVariable(const char* variable, Result<Value> (*parse)(std::string_view),
                  spdlog::sinks::stderr_sink_mt& sink, Take take) {
  const char* word = std::getenv(variable);
  if (word == nullptr || *word == '\0') return;
  const Result<Value> value = parse(word);
  if (value.ok()) {
    take(*value);
  } else {
    const std::string text = std::string(variable) + ": " + value.status().message();
    sink.log({"log", spdlog::level::warn, text});
  }
}

std::shared_ptr<spdlog::sinks::stderr_sink_mt> MakeSink() {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  sink->set_formatter(MakeFormatter(LogFormat::kText));
  sink->set_level(spdlog::level::info);
  TakeVariable(kFormatVariable, ParseLogFormat, *sink,
               [&](LogFormat format) { sink->set_formatter(MakeFormatter(format)); });
  TakeVariable(kLevelVariable, ParseLogLevel, *sink,
               [&](LogLevel level) { sink->set_level(ToSpdlog(level)); });
  return sink;
}

// Of the process, as standard error is. Never destroyed, because threads may log until the end.
spdlog::sinks::stderr_sink_mt& Sink() {
  static auto* const sink = new std::shared_ptr(MakeSink());
  return **sink;
}

}  // namespace

Result<LogFormat> ParseLogFormat(std::string_view word) {
  if (word == "text") return LogFormat::kText;
  if (word == "json") return LogFormat::kJson;
  return InvalidArgument("unknown log format " + Printable(word) + ", expected text or json");
}

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

std::string LogLine(LogFormat format, Instant now, LogLevel level, std::string_view component,
                    std::string_view text) {
  const auto time = std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(ToNanoseconds(now))));
  spdlog::memory_buf_t line;
  MakeFormatter(format)->format({time,
                                 {},
                                 spdlog::string_view_t(component.data(), component.size()),
                                 ToSpdlog(level),
                                 spdlog::string_view_t(text.data(), text.size())},
                                line);
  return {line.data(), line.size()};
}

}  // namespace longhaul::io
