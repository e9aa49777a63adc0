// The catalog of a checkpoint of any format: its global tensors, and where their boxes are in
// files.
//
// Every reader makes a catalog, and every command and load uses one. So the same read plan
// (reshard/read_plan.h) loads any layout from any format. A tensor that isn't row-major in its file
// is converted in memory when the catalog is made.
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

// A range of a file with its own hash (copy.h: HashChunk). Ranges don't overlap.
struct HashedChunk {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t hash = 0;
};

// A ZIP archive inside a file, with its own CRCs.
struct CatalogArchive {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct CatalogFile {
  std::string path;
  uint64_t bytes = 0;
  std::vector<HashedChunk> chunks;  // by offset; empty: the format has no hashes
  std::vector<CatalogArchive> archives = {};
  // The bytes are here; the file only names their origin. `keeper` owns them or, when it is null,
  // the maker of the catalog.
  bool in_memory = false;
  std::span<const std::byte> memory = {};
  std::shared_ptr<const void> keeper = nullptr;
  // Otherwise: returns whole chunks from elsewhere. The calls are in the order of BlocksOf.
  std::function<Status(uint64_t offset, std::span<std::byte> to)> fetch = nullptr;
};

struct Catalog {
  Format format = Format::kLonghaul;
  std::string path;
  std::string job;  // of a run's checkpoint, as are step and attempt
  uint64_t step = 0;
  uint64_t attempt = 0;
  uint32_t world = 0;  // ranks that wrote it, if known
  std::vector<CatalogFile> files;
  std::vector<TensorInfo> tensors;  // global ones, names unique
  std::vector<SavedShard> shards;   // by tensor
  std::optional<Tree> tree;         // the values beside the tensors, if the format has them
  std::string tree_text;            // the same as a text, if it was stored as one
  TextMap metadata;

  std::vector<uint64_t> ElementBytes() const;
  std::vector<std::string> Names() const;
  // Returns the tensor's index.
  std::optional<uint32_t> Find(std::string_view name) const;
  uint64_t TensorBytes(uint32_t tensor) const;
  uint64_t TotalBytes() const;  // of the tensors, each once
};

// Every reader calls this last. Refuses repeated names, shards outside of their tensor or file, and
// elements in no shard. Several shards may hold the same elements (replicas).
Status CheckCatalog(const Catalog& catalog);

}  // namespace longhaul::checkpoint
