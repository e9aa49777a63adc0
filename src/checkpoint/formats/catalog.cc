#include "checkpoint/formats/catalog.h"

#include <algorithm>

#include "base/text.h"

namespace longhaul::checkpoint {
namespace {

constexpr std::string_view kFormatNames[] = {"longhaul", "safetensors", "torch", "dcp"};

// Whether the shards hold every element of the tensor.
// The shards are subtracted one after the other, so overlapping replicas count once.
bool Covered(const TensorInfo& tensor, std::span<const SavedShard> shards) {
  std::vector<Box> missing = {Box::Whole(tensor.shape)};
  if (missing.front().elements() == 0) return true;
  std::vector<Box> rest;
  for (const SavedShard& shard : shards) {
    rest.clear();
    for (const Box& hole : missing) Subtract(hole, shard.box, rest);
    missing.swap(rest);
    if (missing.empty()) return true;
  }
  return false;
}

}  // namespace

std::string_view ToString(Format format) { return kFormatNames[static_cast<size_t>(format)]; }

std::optional<Format> ParseFormat(std::string_view text) {
  for (size_t i = 0; i < std::size(kFormatNames); ++i) {
    if (kFormatNames[i] == text) return static_cast<Format>(i);
  }
  return std::nullopt;
}

std::vector<uint64_t> Catalog::ElementBytes() const {
  std::vector<uint64_t> bytes;
  for (const TensorInfo& tensor : tensors) bytes.push_back(DtypeBytes(tensor.dtype).value_or(0));
  return bytes;
}

std::vector<std::string> Catalog::Names() const {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
  return names;
}

std::optional<uint32_t> Catalog::Find(std::string_view name) const {
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name == name) return i;
  }
  return std::nullopt;
}

uint64_t Catalog::TensorBytes(uint32_t tensor) const {
  return static_cast<uint64_t>(Box::Whole(tensors[tensor].shape).elements()) *
         DtypeBytes(tensors[tensor].dtype).value_or(0);
}

uint64_t Catalog::TotalBytes() const {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < tensors.size(); ++i) bytes += TensorBytes(i);
  return bytes;
}

// After this check every shard lies in its tensor and its file, and every element of every tensor
// has a shard. Requires shards sorted by tensor.
Status CheckCatalog(const Catalog& catalog) {
  const auto plan = StatePlan::Create(catalog.tensors);
  if (!plan.ok()) return DataLoss(plan.status().message());
  size_t next = 0;
  for (uint32_t tensor = 0; tensor < catalog.tensors.size(); ++tensor) {
    const TensorInfo& info = catalog.tensors[tensor];
    const uint64_t element = DtypeBytes(info.dtype).value_or(0);
    const size_t first = next;
    for (; next < catalog.shards.size() && catalog.shards[next].tensor == tensor; ++next) {
      const SavedShard& shard = catalog.shards[next];
      const std::string what = "tensor " + Printable(info.name) + ": " + ToString(shard.box) + " ";
      if (shard.file >= catalog.files.size()) return DataLoss(what + "is in no file");
      const CatalogFile& file = catalog.files[shard.file];
      if (!shard.box.InsideOf(info.shape)) return DataLoss(what + "lies outside of the tensor");
      const uint64_t bytes = static_cast<uint64_t>(shard.box.elements()) * element;
      const uint64_t size = file.in_memory ? file.memory.size() : file.bytes;
      if (shard.file_offset > size || bytes > size - shard.file_offset) {
        return DataLoss(what + "lies outside of " + file.path);
      }
    }
    if (!Covered(info, std::span(catalog.shards).subspan(first, next - first))) {
      return DataLoss("tensor " + Printable(info.name) + " is not all there");
    }
  }
  if (next != catalog.shards.size()) return DataLoss("a shard of no tensor");
  return {};
}

}  // namespace longhaul::checkpoint
