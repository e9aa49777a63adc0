#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "base/text.h"
#include "checkpoint/formats/internal/open_parts.h"

namespace longhaul::checkpoint::internal {
namespace {

constexpr uint64_t kMaxStridedBytes = uint64_t{16} << 30;

}  // namespace

Status AddStrided(const io::ReadableFile& file, uint32_t file_index, const StridedTensor& tensor,
                  uint32_t index, const Box& box, Catalog& catalog) {
  if (IsContiguous(tensor)) {
    catalog.shards.push_back({index, box, file_index, tensor.offset});
    return {};
  }
  const uint64_t element = DtypeBytes(tensor.info.dtype).value_or(1);
  const auto elements = static_cast<uint64_t>(box.elements());
  const uint64_t span = SpanBytes(tensor);
  uint64_t held = span + elements * element;
  for (const CatalogFile& other : catalog.files) {
    held += other.memory.size();
  }
  if (held > kMaxStridedBytes) {
    return ResourceExhausted("tensors that are not contiguous take more than 16 GiB: " +
                             Printable(tensor.info.name));
  }
  std::vector<std::byte> from(span);
  RETURN_IF_ERROR(file.Read(tensor.offset, from));
  auto to = std::make_shared<std::vector<std::byte>>(elements * element);
  std::array<int64_t, kMaxDims> at{};
  uint64_t offset = 0;  // in elements of `from`
  for (uint64_t i = 0; i < elements; ++i) {
    std::memcpy(to->data() + i * element, from.data() + offset * element, element);
    for (size_t dim = tensor.info.shape.size(); dim-- > 0;) {
      offset += static_cast<uint64_t>(tensor.strides[dim]);
      if (++at[dim] < tensor.info.shape[dim]) break;
      offset -= static_cast<uint64_t>(tensor.strides[dim] * tensor.info.shape[dim]);
      at[dim] = 0;
    }
  }
  catalog.shards.push_back({index, box, static_cast<uint32_t>(catalog.files.size()), 0});
  CatalogFile laid_out{catalog.files[file_index].path, to->size(), {}};
  laid_out.in_memory = true;
  laid_out.memory = *to;
  laid_out.keeper = std::move(to);
  catalog.files.push_back(std::move(laid_out));
  return {};
}

}  // namespace longhaul::checkpoint::internal
