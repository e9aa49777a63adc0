// Any record is another program's, no error of a device, or one within the limits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "service/agent/devices/device_error.h"
#include "service/agent/devices/kernel_log.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const std::string_view message : {longhaul::service::KernelText(text), text}) {
    const auto error = longhaul::service::DeviceErrorOf(message);
    if (!error.has_value()) continue;
    CHECK(!error->device.empty() && error->device.size() <= 40);
    CHECK(error->text.size() <= 310);
  }
  return 0;
}
