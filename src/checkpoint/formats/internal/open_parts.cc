#include "checkpoint/formats/internal/open_parts.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace longhaul::checkpoint::internal {
namespace {

constexpr uint64_t kMaxTreeBytes = 256 << 20;

// The tensor that holds a tree, as the Python package leaves it: of bytes, behind all others of its
// rank.
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
  const auto found = catalog.Find(kTreeTensor);
  if (!found.has_value() || catalog.tensors[*found].dtype != "U8") return {};
  const uint32_t at = *found;
  const auto shard = std::find_if(catalog.shards.begin(), catalog.shards.end(),
                                  [&](const SavedShard& one) { return one.tensor == at; });
  if (shard == catalog.shards.end() || shard->box != Box::Whole(catalog.tensors[at].shape) ||
      static_cast<uint64_t>(shard->box.elements()) > kMaxTreeBytes) {
    return {};
  }
  ASSIGN_OR_RETURN(const std::string text, ReadTreeTensor(files, catalog, *shard));
  // It names tensors of the rank that wrote it: those before it.
  Result<Tree> tree = ParseTree(text, at);
  if (!tree.ok()) return {};
  catalog.tree = std::move(tree).value();
  catalog.tensors.erase(catalog.tensors.begin() + at);
  std::erase_if(catalog.shards, [&](const SavedShard& one) { return one.tensor == at; });
  for (SavedShard& one : catalog.shards) one.tensor -= one.tensor > at ? 1 : 0;
  return {};
}

}  // namespace longhaul::checkpoint::internal
