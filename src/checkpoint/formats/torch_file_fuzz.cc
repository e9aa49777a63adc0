// Any bytes as a file of torch.save: refused, or a catalog whose every tensor can be read.

#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/formats/open_checkpoint.h"
#include "checkpoint/formats/testing.h"
#include "sim/crash_file_system.h"

using namespace longhaul::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kMostBytes = 1 << 20;
  longhaul::sim::CrashFileSystem files;
  testing_support::Put(files, "/f", {reinterpret_cast<const char*>(data), size});
  const auto catalog = OpenTorchFile(files, "/f");
  if (!catalog.ok()) return 0;
  CatalogReader reader(files, *catalog);
  for (uint32_t i = 0; i < catalog->tensors.size(); ++i) {
    if (catalog->TensorBytes(i) > kMostBytes) continue;
    std::vector<std::byte> bytes(catalog->TensorBytes(i));
    const longhaul::Status read = reader.ReadRange(i, 0, bytes);
    CHECK(read.ok()) << read.message();
  }
  return 0;
}
