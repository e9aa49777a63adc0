#include "base/time.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/check.h"

namespace longhaul {

Duration DurationFromSeconds(double seconds) {
  CHECK(std::isfinite(seconds) && std::fabs(seconds) < 9.2e9) << seconds;
  return Duration(static_cast<int64_t>(std::llround(seconds * 1e9)));
}

std::string ToString(Duration duration) {
  char text[64];
  const double seconds = ToSeconds(duration);
  const double size = std::fabs(seconds);
  const long long whole = std::llround(seconds);
  if (size < 1e-6) {
    std::snprintf(text, sizeof(text), "%lld ns", static_cast<long long>(duration.count()));
  } else if (size < 0.9995e-3) {
    std::snprintf(text, sizeof(text), "%.3g us", seconds * 1e6);
  } else if (size < 0.9995) {
    std::snprintf(text, sizeof(text), "%.3g ms", seconds * 1e3);
  } else if (size < 59.95) {
    std::snprintf(text, sizeof(text), "%.3g s", seconds);
  } else if (std::llabs(whole) < 3600) {
    std::snprintf(text, sizeof(text), "%lld min %lld s", whole / 60, std::llabs(whole % 60));
  } else if (std::llabs(whole) < 86400) {
    std::snprintf(text, sizeof(text), "%lld h %lld min", whole / 3600,
                  std::llabs(whole % 3600 / 60));
  } else {
    std::snprintf(text, sizeof(text), "%lld d %lld h", whole / 86400,
                  std::llabs(whole % 86400 / 3600));
  }
  return text;
}

std::string ToString(Instant at) {
  // In milliseconds, because the first day of the earliest instants has no beginning in
  // nanoseconds.
  const auto whole = std::chrono::floor<std::chrono::milliseconds>(at.time_since_epoch());
  const auto days = std::chrono::floor<std::chrono::days>(whole);
  const std::chrono::year_month_day date{std::chrono::sys_days(days)};
  const int64_t milliseconds = (whole - days).count();
  char text[64];
  std::snprintf(
      text, sizeof(text), "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(milliseconds / 3'600'000), static_cast<int>(milliseconds / 60'000 % 60),
      static_cast<int>(milliseconds / 1'000 % 60), static_cast<int>(milliseconds % 1'000));
  return text;
}

}  // namespace longhaul
