// Any bytes as a GPU file: read or refused; what is read comes back and gives constants.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "planner/local/gpu/gpu_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::planner;
  const auto file = ParseGpuFile(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!file.ok()) return 0;
  const auto again = ParseGpuFile(ToJson(*file));
  if (!again.ok() || !(*again == *file)) std::abort();
  const auto constants = ConstantsOf(*file);
  if (constants.ok() && !(constants->links.island_bytes_per_s > 0)) std::abort();
  return 0;
}
