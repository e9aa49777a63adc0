// For tests: ranks of random layouts save random models, ranks of other layouts load them, and
// every byte is compared with the reference state. Header only; not part of the library.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/directory.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/reshard/random_layouts.h"
#include "checkpoint/shard.h"
#include "io/files/file.h"

namespace longhaul::checkpoint::testing_support {

constexpr uint64_t kReshardStep = 7;

inline std::string DtypeOf(uint64_t element_bytes) { return element_bytes == 2 ? "BF16" : "F32"; }

// Every rank writes its parts of global tensors; then the manifest is committed.
inline Status SaveLayout(io::FileSystem& files, const std::string& folder, const SmallModel& model,
                         const spec::Layout& layout) {
  CheckpointDirectory directory(files, folder);
  Manifest manifest;
  manifest.job = "job";
  manifest.step = kReshardStep;
  manifest.attempt = 1;
  manifest.world = static_cast<uint32_t>(layout.devices());
  for (uint32_t rank = 0; rank < manifest.world; ++rank) {
    std::vector<TensorInfo> infos;
    std::vector<std::vector<std::byte>> bytes;
    for (const WantedShard& shard : ShardsOfRank(model.problem(layout), layout, rank)) {
      const uint64_t element = model.element_bytes[shard.tensor];
      const std::string& name = model.names[shard.tensor];
      infos.push_back({name + "#" + std::to_string(infos.size()), DtypeOf(element),
                       shard.box.shape(),
                       TensorPart{name, model.rules[shard.tensor].shape, shard.box.offsets()}});
      auto& to = bytes.emplace_back(static_cast<uint64_t>(shard.box.elements()) * element);
      Fill(shard.tensor, shard.box, model.rules[shard.tensor].shape, element, to, 0);
    }
    ASSIGN_OR_RETURN(const StatePlan plan, StatePlan::Create(std::move(infos)));
    const std::vector<std::span<const std::byte>> tensors(bytes.begin(), bytes.end());
    ASSIGN_OR_RETURN(PieceFile piece,
                     directory.WritePiece(kReshardStep, 1, rank, manifest.world, plan, tensors));
    manifest.files.push_back(std::move(piece));
  }
  return directory.Commit(manifest);
}

// Returns the model's tensors by number, for any order in the catalog.
inline std::vector<WantedShard> InCatalog(const Catalog& catalog, const SmallModel& model,
                                          const std::vector<WantedShard>& wanted) {
  std::vector<WantedShard> found;
  for (const WantedShard& shard : wanted) {
    found.push_back({catalog.Find(model.names[shard.tensor]).value(), shard.box});
  }
  return found;
}

// Loads and compares; returns an error message.
inline std::string LoadAndCompare(io::FileSystem& files, const Catalog& catalog,
                                  const SmallModel& model, const std::vector<WantedShard>& wanted,
                                  bool verify, ReadCount& count) {
  std::vector<std::vector<std::byte>> memory;
  for (const WantedShard& shard : wanted) {
    memory.emplace_back(static_cast<uint64_t>(shard.box.elements()) *
                        model.element_bytes[shard.tensor]);
  }
  const std::vector<std::span<std::byte>> to(memory.begin(), memory.end());
  CatalogReader reader(files, catalog);
  ReadOptions options;
  options.verify = verify;
  const Status read = reader.Read(InCatalog(catalog, model, wanted), to, options);
  if (!read.ok()) return read.message();
  count = reader.count();
  for (size_t i = 0; i < wanted.size(); ++i) {
    std::vector<std::byte> expected(memory[i].size());
    Fill(wanted[i].tensor, wanted[i].box, model.rules[wanted[i].tensor].shape,
         model.element_bytes[wanted[i].tensor], expected, 0);
    if (memory[i] != expected) {
      return model.names[wanted[i].tensor] + " " + ToString(wanted[i].box) + " differs";
    }
  }
  return "";
}

}  // namespace longhaul::checkpoint::testing_support
