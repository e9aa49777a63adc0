// Any bytes are measurements within the limits, or an error that names the line.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "service/agent/check/device_lines.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto lines = longhaul::service::ParseDeviceLines(text);
  if (!lines.ok()) {
    CHECK(lines.status().message().starts_with("line "));
    return 0;
  }
  CHECK(lines->size() <= longhaul::service::kMostDeviceLines);
  for (const longhaul::proto::DeviceMeasurement& each : *lines) {
    CHECK(!each.name().empty() && each.name().size() <= longhaul::service::kLongestDeviceName);
    CHECK(each.failed().size() <= longhaul::service::kLongestDeviceFailure);
    CHECK(std::isfinite(each.value()));
    CHECK(each.failed().empty() == (each.value() > 0));
  }
  return 0;
}
