// Any bytes as Nsight's database.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "profiler/read/nsight_reader.h"

using namespace longhaul::profiler;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto trace = ReadNsightBytes({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!trace.ok()) return 0;
  for (size_t row = 0; row < trace->events.size(); ++row) {
    CHECK(trace->events.track(row) < trace->tracks.size());
    CHECK(trace->events.duration_ns(row) >= kNoDuration);
  }
  return 0;
}
