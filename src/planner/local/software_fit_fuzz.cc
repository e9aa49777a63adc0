// Any bytes as measured steps and as a stack file: read or refused; what is read is within limits.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "planner/local/software_fit.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::planner;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto runs = ParseRuns(text, "fuzz");
  if (runs.ok() && (runs->empty() || runs->size() > kMostMeasuredSteps)) std::abort();
  const auto factor = ParseStackFile(text);
  if (factor.ok() && !(*ParseStackFile(ToJson(*factor)) == *factor)) std::abort();
  return 0;
}
