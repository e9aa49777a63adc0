// What a checkpoint of any format holds: global tensors, and where the boxes of each lie in files.
//
// Every reader makes a catalog, every command and every load works from one: so any layout is
// loaded from any format by the same read plan (reshard/read_plan.h). A tensor whose elements don't
// lie row-major in its file is laid out anew in memory when the catalog is made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/formats/state_tree.h"
#include "checkpoint/reshard/box.h"
#include "checkpoint/reshard/read_plan.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/state.h"

namespace longhaul::checkpoint {

enum class Format {
  kLonghaul,     // a step of a run: MANIFEST and a safetensors shard a rank
  kSafetensors,  // one file, or a folder of shards with an index
  kTorch,        // one file of torch.save
  kDistributed,  // a folder of torch.distributed.checkpoint
};

// "longhaul", "safetensors", "torch", "dcp".
std::string_view ToString(Format format);
std::optional<Format> ParseFormat(std::string_view text);

// A stretch of a file with a hash of its own (copy.h: HashChunk). Stretches don't overlap.
struct HashedChunk {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t hash = 0;
};

// A ZIP archive inside of a file, with sums of its own.
struct CatalogArchive {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct CatalogFile {
  std::string path;
  uint64_t bytes = 0;
  std::vector<HashedChunk> chunks;  // by offset; empty: the format has none
  std::vector<CatalogArchive> archives = {};
  // The bytes are here and not in the file, which then only says where they came from. Kept by
  // `keeper`, or, when it is null, by whoever made the catalog.
  bool in_memory = false;
  std::span<const std::byte> memory = {};
  std::shared_ptr<const void> keeper = nullptr;
  // Neither: whole chunks come from elsewhere, asked for in the order of BlocksOf.
  std::function<Status(uint64_t offset, std::span<std::byte> to)> fetch = nullptr;
};

struct Catalog {
  Format format = Format::kLonghaul;
  std::string path;
  std::string job;  // of a run's checkpoint, as are step and attempt
  uint64_t step = 0;
  uint64_t attempt = 0;
  uint32_t world = 0;  // ranks that wrote it, where the format says
  std::vector<CatalogFile> files;
  std::vector<TensorInfo> tensors;  // global ones, names unique
  std::vector<SavedShard> shards;   // by tensor
  std::optional<Tree> tree;         // what is beside the tensors, where the format has it
  std::string tree_text;            // the same as it was written, where it was written as text
  TextMap metadata;

  std::vector<uint64_t> ElementBytes() const;
  std::vector<std::string> Names() const;
  // The tensor's index.
  std::optional<uint32_t> Find(std::string_view name) const;
  uint64_t TensorBytes(uint32_t tensor) const;
  uint64_t TotalBytes() const;  // of the tensors, each once
};

// What every reader does last: refuses names that come twice, shards outside of their tensor or
// file, elements that no shard holds. Shards may hold the same elements: replicas.
Status CheckCatalog(const Catalog& catalog);

}  // namespace longhaul::checkpoint
