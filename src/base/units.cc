#include "base/units.h"

#include <cmath>
#include <cstdio>

namespace longhaul {
namespace {

// `value` in the largest unit of `step`s that keeps it at or above one, as printed.
std::string Scaled(double value, double step, const char* const* units, int unit_count) {
  int unit = 0;
  while (unit + 1 < unit_count && std::fabs(value) >= step - 0.005) {
    value /= step;
    ++unit;
  }
  char text[64];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
  return text;
}

}  // namespace

std::string ToString(Bytes bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return Scaled(static_cast<double>(bytes.count()), 1024, kUnits, 6);
}

std::string ToString(Seconds seconds) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.4g s", seconds.count());
  return text;
}

std::string ToString(BytesPerSecond rate) {
  static constexpr const char* kUnits[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  return Scaled(rate.count(), 1000, kUnits, 5);
}

std::string ToString(FlopsPerSecond rate) {
  static constexpr const char* kUnits[] = {"FLOP/s",  "kFLOP/s", "MFLOP/s",
                                           "GFLOP/s", "TFLOP/s", "PFLOP/s"};
  return Scaled(rate.count(), 1000, kUnits, 6);
}

}  // namespace longhaul
