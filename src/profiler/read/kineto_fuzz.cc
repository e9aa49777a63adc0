// Any bytes as a trace: nothing crashes, and what was understood is consistent with itself.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "profiler/read/byte_source.h"
#include "profiler/read/kineto_reader.h"

using namespace longhaul;
using namespace longhaul::profiler;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  SourceLimits limits;
  limits.max_bytes = 16 << 20;
  const auto source = OpenBytes(text, limits);
  ReadOptions options;
  options.max_event_bytes = 64 << 10;
  const Result<RankTrace> trace = ReadKineto(*source, "fuzz", options);
  if (!trace.ok()) return 0;
  CHECK(trace->events.size() <= trace->report.events);
  CHECK(trace->report.bytes_lost <= trace->report.json_bytes);
  for (size_t row = 0; row < trace->events.size(); ++row) {
    const Event event = trace->events[row];
    CHECK(event.name < trace->strings.size());
    CHECK(event.track < trace->tracks.size());
    CHECK(event.category != Category::kKernel || event.detail <= trace->notes.size());
    CHECK(event.category != Category::kUserAnnotation ||
          event.detail <= trace->operator_notes.size());
    CHECK(event.duration_ns >= kNoDuration);
  }
  return 0;
}
