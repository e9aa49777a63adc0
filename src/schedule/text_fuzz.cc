// Any text is refused with a reason, or is a schedule that is written and read back the same and
// that can be verified, and simulated if it is correct.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "schedule/simulate.h"
#include "schedule/text.h"
#include "schedule/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::schedule;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const longhaul::Result<Schedule> schedule = ParseSchedule(text);
  if (!schedule.ok()) return 0;
  const longhaul::Result<Schedule> again = ParseSchedule(ToText(*schedule));
  CHECK(again.ok() && *again == *schedule);
  for (const uint32_t buffers : {0u, 1u, kMostMicroBatches}) {
    const Verdict verdict = Verify(*schedule, {.buffers = buffers});
    if (verdict.findings.empty()) CHECK(Simulate(*schedule, {}).makespan > 0);
  }
  return 0;
}
