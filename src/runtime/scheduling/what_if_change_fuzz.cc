// Changes of what-if questions: what is accepted is written back and read again as the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "runtime/scheduling/what_if_change.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using longhaul::runtime::scheduling::ParseWhatIfChange;
  const auto change =
      ParseWhatIfChange(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!change.ok()) {
    CHECK(!change.status().message().empty());
    return 0;
  }
  CHECK(change->count <= 1'000'000'000 && change->per_node <= 16);
  const std::string text = ToString(*change);
  const auto again = ParseWhatIfChange(text);
  CHECK(again.ok()) << text << ": " << again.status().message();
  CHECK(ToString(*again) == text);
  return 0;
}
