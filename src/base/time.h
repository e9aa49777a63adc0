// Time on a clock: whole nanoseconds, so that a replay is exact to the bit.
//
// An Instant is nanoseconds since the Unix epoch on any clock: `io` reads the machine's clock,
// `sim` a virtual one. A pure core never reads a clock: `now` is an argument. An estimate that may
// be a fraction is `Seconds` (base/units.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace longhaul {

using Duration = std::chrono::nanoseconds;

// Only a tag: it deliberately has no now().
struct LonghaulClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<LonghaulClock, Duration>;
  static constexpr bool is_steady = false;
};
using Instant = LonghaulClock::time_point;

constexpr Instant InstantFromNanoseconds(int64_t nanoseconds) {
  return Instant(Duration(nanoseconds));
}
constexpr int64_t ToNanoseconds(Instant at) { return at.time_since_epoch().count(); }
constexpr double ToSeconds(Duration duration) {
  return static_cast<double>(duration.count()) / 1e9;
}

// The nearest whole nanosecond. Requires a finite number whose magnitude is below 292 years.
Duration DurationFromSeconds(double seconds);

// For people, with about three digits: "850 us", "12.3 ms", "4.51 s", "3 min 20 s", "2 h 5 min", "3
// d 4 h".
std::string ToString(Duration duration);

// RFC 3339 in UTC with milliseconds: "2026-01-31T08:00:00.000Z".
std::string ToString(Instant at);

}  // namespace longhaul
