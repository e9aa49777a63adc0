#include "checkpoint/reshard/load_snapshots.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "checkpoint/copy.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/reshard/box.h"
#include "checkpoint/reshard/load_state.h"
#include "io/file.h"

namespace longhaul::checkpoint {
namespace {

// A catalog of snapshots, as it grows by one after the other.
class Collector {
 public:
  explicit Collector(const SealedSnapshot& first) {
    catalog_.step = first.step;
    catalog_.epoch = first.epoch;
  }

  Status Add(const ReachedSnapshot& snapshot) {
    const StatePlan& plan = snapshot.sealed.plan;
    CHECK(snapshot.sealed.tensors.size() == plan.size() &&
          snapshot.sealed.chunks.size() == plan.size());
    for (size_t i = 0; i < plan.size(); ++i) {
      const TensorInfo& tensor = plan.tensors()[i];
      ASSIGN_OR_RETURN(const uint32_t global, Global(tensor, snapshot.where));
      catalog_.shards.push_back(
          {global,
           tensor.part ? Box::At(tensor.part->offset, tensor.shape) : Box::Whole(tensor.shape),
           static_cast<uint32_t>(catalog_.files.size()), 0});
      // A file a tensor: each lies at a place of its own.
      CatalogFile file{snapshot.where, plan.bytes(i), {}};
      file.in_memory = true;
      file.memory = snapshot.sealed.tensors[i];
      uint64_t at = 0;
      for (const uint64_t hash : snapshot.sealed.chunks[i]) {
        const uint64_t bytes = std::min<uint64_t>(kChunkBytes, plan.bytes(i) - at);
        file.chunks.push_back({at, bytes, hash});
        at += bytes;
      }
      catalog_.files.push_back(std::move(file));
    }
    return {};
  }

  Catalog Take() {
    std::stable_sort(catalog_.shards.begin(), catalog_.shards.end(),
                     [](const SavedShard& a, const SavedShard& b) { return a.tensor < b.tensor; });
    return std::move(catalog_);
  }

 private:
  Result<uint32_t> Global(const TensorInfo& tensor, const std::string& where) {
    const auto next = static_cast<uint32_t>(catalog_.tensors.size());
    const auto [at, added] = known_.emplace(tensor.global_name(), next);
    if (added) {
      catalog_.tensors.push_back({tensor.global_name(), tensor.dtype, tensor.global_shape()});
      return next;
    }
    const TensorInfo& other = catalog_.tensors[at->second];
    if (other.dtype != tensor.dtype || other.shape != tensor.global_shape()) {
      return DataLoss(where + ": " + Printable(tensor.global_name()) +
                      " has another shape or dtype than in the snapshots before it");
    }
    return at->second;
  }

  Catalog catalog_;
  std::unordered_map<std::string, uint32_t> known_;
};

// Takes what a damaged snapshot holds out of the catalog.
void LeaveOut(const std::string& where, Catalog& catalog) {
  std::erase_if(catalog.shards,
                [&](const SavedShard& shard) { return catalog.files[shard.file].path == where; });
}

}  // namespace

Result<Catalog> CatalogOfSnapshots(std::span<const ReachedSnapshot> snapshots) {
  if (snapshots.empty()) return InvalidArgument("no snapshot can be reached");
  const SealedSnapshot& first = snapshots.front().sealed.snapshot;
  Collector collector(first);
  for (const ReachedSnapshot& snapshot : snapshots) {
    const SealedSnapshot& sealed = snapshot.sealed.snapshot;
    if (sealed.step != first.step || sealed.epoch != first.epoch) {
      return InvalidArgument(snapshot.where + " is of step " + std::to_string(sealed.step) +
                             " of epoch " + std::to_string(sealed.epoch) + ", " +
                             snapshots.front().where + " of step " + std::to_string(first.step) +
                             " of epoch " + std::to_string(first.epoch));
    }
    RETURN_IF_ERROR(collector.Add(snapshot));
  }
  return collector.Take();
}

Result<LoadedSnapshots> LoadFromSnapshots(std::span<const ReachedSnapshot> snapshots,
                                          const StatePlan& plan,
                                          std::span<const std::span<std::byte>> memory) {
  CHECK(memory.size() == plan.size());
  ASSIGN_OR_RETURN(Catalog catalog, CatalogOfSnapshots(snapshots));
  auto wanted = WantedBoxes(catalog, plan);
  if (!wanted.ok()) {
    // A tensor that nobody reached holds is lost, one of another form of another model.
    if (wanted.status().code() != Code::kNotFound) return wanted.status();
    return DataLoss("no snapshot that can be reached holds it: " + wanted.status().message());
  }
  LoadedSnapshots loaded;
  while (true) {
    ASSIGN_OR_RETURN(const ReadPlan reads,
                     PlanReads(catalog.shards, *wanted, catalog.ElementBytes(), catalog.Names()));
    loaded.bytes_needed = reads.bytes_needed;
    CatalogReader reader(io::PosixFileSystem(), catalog);  // which it asks for nothing
    const Status read = reader.Read(*wanted, memory);
    loaded.bytes_read += reader.count().memory_bytes;
    if (read.ok()) return loaded;
    if (!reader.damaged_file().has_value()) return read;
    loaded.damaged.push_back(read.message());
    LeaveOut(catalog.files[*reader.damaged_file()].path, catalog);
  }
}

}  // namespace longhaul::checkpoint
