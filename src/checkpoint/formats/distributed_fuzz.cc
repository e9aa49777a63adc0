// Any bytes as .metadata of torch.distributed.checkpoint: refused, or entries of sane sizes.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "checkpoint/formats/internal/distributed_metadata.h"

using namespace longhaul::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto metadata = ReadDistributedMetadata({reinterpret_cast<const char*>(data), size});
  if (!metadata.ok()) return 0;
  for (const DistributedEntry& entry : metadata->entries) {
    CHECK(!entry.path.empty());
    for (const DistributedPart& part : entry.parts) {
      CHECK(!entry.is_tensor || part.box.dims() == entry.tensor.shape.size());
    }
  }
  return 0;
}
