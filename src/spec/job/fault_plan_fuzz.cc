// Any text gives a plan or a message, and a plan is read back from what it prints.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "spec/job/fault_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = longhaul::spec::ParseFaultPlan(text);
  if (!plan.ok()) {
    CHECK(!plan.status().message().empty());
    return 0;
  }
  for (const auto& fault : *plan) {
    const auto again = longhaul::spec::ParseFaultPlan(longhaul::spec::ToString(fault));
    CHECK(again.ok()) << again.status().message();
    CHECK(again->size() == 1 && again->front() == fault);
  }
  return 0;
}
