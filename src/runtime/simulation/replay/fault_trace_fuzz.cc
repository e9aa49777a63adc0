// Any text is read or refused with its place; what is read is written and read as the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "runtime/simulation/replay/fault_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::runtime::simulation;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const TraceLimits limits = {64, std::chrono::hours(24 * 54)};
  const auto trace = ParseFaultTrace(text, "t.csv", limits);
  if (!trace.ok()) {
    CHECK(trace.status().message().starts_with("t.csv:")) << trace.status().message();
    return 0;
  }
  for (const TracedFault& fault : *trace) {
    CHECK(fault.node >= 1 && fault.node <= limits.nodes);
    CHECK(fault.at >= longhaul::Duration(0) && fault.at <= limits.length);
  }
  const auto again = ParseFaultTrace(FormatFaultTrace(*trace), "t.csv", limits);
  CHECK(again.ok()) << again.status().message();
  CHECK(*again == *trace);
  return 0;
}
