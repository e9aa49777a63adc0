// Any bytes as a memory snapshot: refused or read, never more.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "profiler/memory/snapshot.h"

using namespace longhaul::profiler;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto devices = ReadMemorySnapshot({reinterpret_cast<const char*>(data), size});
  if (!devices.ok()) return 0;
  for (const DeviceMemory& device : *devices) CHECK(device.peak_bytes >= 0);
  (void)MemoryText(*devices);
  return 0;
}
