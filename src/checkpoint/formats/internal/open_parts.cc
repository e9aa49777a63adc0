#include "checkpoint/formats/internal/open_parts.h"

#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "base/text.h"

namespace longhaul::checkpoint::internal {
namespace {

constexpr uint64_t kMaxTreeBytes = 256 << 20;
constexpr uint64_t kMaxStridedBytes = uint64_t{16} << 30;

// The tensor that holds a tree, as the Python package leaves it: the last, of bytes.
Result<std::string> ReadTreeTensor(io::FileSystem& files, const Catalog& catalog,
                                   const SavedShard& shard) {
  const CatalogFile& file = catalog.files[shard.file];
  std::string text(static_cast<size_t>(shard.box.elements()), '\0');
  ASSIGN_OR_RETURN(const auto opened, files.Open(file.path));
  RETURN_IF_ERROR(opened->Read(shard.file_offset, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace

Status CheckFileName(std::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == ".." ||
      name.find('/') != name.npos || name.find('\0') != name.npos) {
    return DataLoss("'" + Printable(name) + "' is not the name of a file in the checkpoint");
  }
  return {};
}

Result<SafetensorsHeader> ReadSafetensors(io::FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, files.Open(path));
  std::vector<std::byte> bytes(8);
  if (file->bytes() < bytes.size()) return DataLoss(path + ": too short for a header");
  RETURN_IF_ERROR(file->Read(0, bytes));
  const Result<uint64_t> length = SafetensorsHeaderBytes(bytes, file->bytes());
  if (!length.ok()) return length.status().WithContext(path);
  bytes.resize(*length);
  RETURN_IF_ERROR(file->Read(0, bytes));
  Result<SafetensorsHeader> header = ParseSafetensorsHeader(bytes, file->bytes());
  if (!header.ok()) return header.status().WithContext(path);
  return header;
}

void AddWholeTensors(const SafetensorsHeader& header, const std::string& path, Catalog& catalog) {
  const auto file = static_cast<uint32_t>(catalog.files.size());
  uint64_t end = 0;
  for (size_t i = 0; i < header.plan.size(); ++i) {
    const auto tensor = static_cast<uint32_t>(catalog.tensors.size());
    catalog.tensors.push_back(header.plan.tensors()[i]);
    catalog.shards.push_back(
        {tensor, Box::Whole(header.plan.tensors()[i].shape), file, header.offsets[i]});
    end = header.offsets[i] + header.plan.bytes(i);
  }
  catalog.files.push_back({path, end, {}});
}

Status TakeTree(io::FileSystem& files, Catalog& catalog) {
  const auto named = catalog.metadata.find(std::string(kTreeMetadata));
  if (named != catalog.metadata.end()) {
    Result<Tree> tree = ParseTree(named->second, catalog.tensors.size());
    if (tree.ok()) {
      catalog.tree = std::move(tree).value();
      catalog.metadata.erase(named);
    }
    return {};
  }
  if (catalog.tensors.empty() || catalog.tensors.back().name != kTreeTensor ||
      catalog.tensors.back().dtype != "U8" || catalog.shards.empty()) {
    return {};
  }
  const auto last = static_cast<uint32_t>(catalog.tensors.size() - 1);
  const SavedShard shard = catalog.shards.back();
  if (shard.tensor != last || shard.box != Box::Whole(catalog.tensors.back().shape) ||
      static_cast<uint64_t>(shard.box.elements()) > kMaxTreeBytes) {
    return {};
  }
  ASSIGN_OR_RETURN(const std::string text, ReadTreeTensor(files, catalog, shard));
  Result<Tree> tree = ParseTree(text, last);
  if (!tree.ok()) return {};
  catalog.tree = std::move(tree).value();
  catalog.tensors.pop_back();
  while (!catalog.shards.empty() && catalog.shards.back().tensor == last) {
    catalog.shards.pop_back();
  }
  return {};
}

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
    held += other.memory != nullptr ? other.memory->size() : 0;
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
  catalog.files.push_back({catalog.files[file_index].path, to->size(), {}, std::move(to)});
  return {};
}

}  // namespace longhaul::checkpoint::internal
