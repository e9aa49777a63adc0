// Any bytes as a user's table of kernel patterns: what is accepted classifies every name, always
// the same way and within the limits.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "profiler/rank/kernel_table.h"

using namespace longhaul;
using namespace longhaul::profiler;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<KernelTable> table = KernelTable::Parse(text, "kernels.txt");
  if (!table.ok()) {
    CHECK(table.status().message().starts_with("kernels.txt"));
    return 0;
  }
  CHECK(table->own_patterns() <= KernelTable::kMaxPatterns);
  for (const std::string_view name : {text, text.substr(0, text.find('=')), std::string_view(""),
                                      std::string_view("ncclDevKernel_SendRecv")}) {
    const KernelMatch match = table->Find(name);
    CHECK(match == table->Find(name));
    CHECK(static_cast<size_t>(match.kind) < kKernelClasses);
    CHECK(match.dimension.empty() || match.kind == KernelClass::kCommunication);
    CHECK(!match.host || match.kind == KernelClass::kOther);
  }
  return 0;
}
