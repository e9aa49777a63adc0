// One file of safetensors, or shards with an index as Hugging Face's libraries name them.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "checkpoint/formats/internal/write_parts.h"
#include "checkpoint/safetensors.h"

namespace longhaul::checkpoint::internal {
namespace {

// Consecutive tensors of at most `limit` bytes together, at least one.
std::vector<std::vector<uint32_t>> Group(const Catalog& catalog, uint64_t limit) {
  std::vector<std::vector<uint32_t>> groups(1);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < catalog.tensors.size(); ++i) {
    const uint64_t next = catalog.TensorBytes(i);
    if (limit > 0 && !groups.back().empty() && bytes + next > limit) {
      groups.emplace_back();
      bytes = 0;
    }
    groups.back().push_back(i);
    bytes += next;
  }
  return groups;
}

std::string ShardName(size_t index, size_t shards) {
  char name[64];
  std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", index + 1, shards);
  return name;
}

// What goes over from where it was: not what belongs to one file or one rank.
TextMap MetadataOf(const Catalog& catalog) {
  TextMap metadata;
  for (const auto& [key, value] : catalog.metadata) {
    if (!key.starts_with("longhaul.") && !key.starts_with("chunks:") && !key.starts_with("part:")) {
      metadata[key] = value;
    }
  }
  if (catalog.tree.has_value()) metadata[std::string(kTreeMetadata)] = catalog.tree->dump();
  if (catalog.step > 0) metadata["longhaul.step"] = std::to_string(catalog.step);
  return metadata;
}

Status WriteFile(const Catalog& catalog, const std::vector<uint32_t>& tensors,
                 const TextMap& metadata, TensorStream& stream, const std::string& path) {
  std::vector<TensorInfo> infos;
  for (const uint32_t tensor : tensors) infos.push_back(catalog.tensors[tensor]);
  ASSIGN_OR_RETURN(const StatePlan plan, StatePlan::Create(std::move(infos)));
  ASSIGN_OR_RETURN(const std::string header, EncodeSafetensorsHeader(plan, metadata));
  ASSIGN_OR_RETURN(io::PatchableFile file, io::PatchableFile::Create(path));
  RETURN_IF_ERROR(file.Append(std::as_bytes(std::span(header))));
  for (const uint32_t tensor : tensors) {
    RETURN_IF_ERROR(
        stream.Each(tensor, [&](std::span<const std::byte> bytes) { return file.Append(bytes); }));
  }
  return Finish(file);
}

}  // namespace

Status WriteSafetensors(io::FileSystem& files, const Catalog& catalog, TensorStream& stream,
                        const std::string& path, const WriteOptions& options) {
  const auto groups = Group(catalog, options.max_shard_bytes);
  if (options.max_shard_bytes == 0) {
    return WriteFile(catalog, groups.front(), MetadataOf(catalog), stream, path);
  }
  nlohmann::ordered_json index;
  index["metadata"]["total_size"] = catalog.TotalBytes();
  index["weight_map"] = nlohmann::ordered_json::object();
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::string name = ShardName(i, groups.size());
    for (const uint32_t tensor : groups[i]) {
      index["weight_map"][catalog.tensors[tensor].name] = name;
    }
    // The tree's numbers are of all tensors in order, which is the order of the shards.
    RETURN_IF_ERROR(WriteFile(catalog, groups[i], i == 0 ? MetadataOf(catalog) : TextMap(), stream,
                              path + "/" + name));
  }
  return io::WriteTextAtomically(files, path + "/model.safetensors.index.json",
                                 index.dump(1) + "\n");
}

}  // namespace longhaul::checkpoint::internal
