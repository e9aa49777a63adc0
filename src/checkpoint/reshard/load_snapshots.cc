#include "checkpoint/reshard/load_snapshots.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"
#include "checkpoint/copy.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/reshard/box.h"
#include "checkpoint/reshard/load_state.h"
#include "io/files/file.h"

namespace longhaul::checkpoint {
namespace {

// A catalog of snapshots, as it grows by one after the other.
class Collector {
 public:
  explicit Collector(const SealedSnapshot& first) {
    catalog_.step = first.step;
    catalog_.attempt = first.attempt;
  }

  // Each tensor becomes a file of its own, since tensors in memory have no common address space.
  // LeaveOut and SnapshotOf rely on this order of the files.
  Status Add(const ReachedSnapshot& snapshot) {
    const StatePlan& plan = snapshot.sealed.plan;
    const bool here = snapshot.source == nullptr;
    CHECK(snapshot.sealed.chunks.size() == plan.size() &&
          (!here || snapshot.sealed.tensors.size() == plan.size()));
    for (size_t i = 0; i < plan.size(); ++i) {
      const TensorInfo& tensor = plan.tensors()[i];
      ASSIGN_OR_RETURN(const uint32_t global, Global(tensor, snapshot.where));
      const Box box =
          tensor.part ? Box::At(tensor.part->offset, tensor.shape) : Box::Whole(tensor.shape);
      const auto file_index = static_cast<uint32_t>(catalog_.files.size());
      Place(global, box, snapshot.sealed.chunks[i], here);
      catalog_.shards.push_back({global, box, file_index, 0});
      // A file a tensor: each lies at a place of its own.
      CatalogFile file{snapshot.where, plan.bytes(i), {}};
      if (here) {
        file.in_memory = true;
        file.memory = snapshot.sealed.tensors[i];
      } else {
        file.fetch = [source = snapshot.source, at = static_cast<uint32_t>(i)](
                         uint64_t offset, std::span<std::byte> to) {
          return source->Read({at, static_cast<uint32_t>(offset / kChunkBytes)}, to);
        };
      }
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
    std::vector<size_t> order(catalog_.shards.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    // A read takes each element from the first shard that has it, so this order prefers memory of
    // this node to memory of others, and gives the same choice on every run.
    std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      return std::tuple(catalog_.shards[a].tensor, places_[a]) <
             std::tuple(catalog_.shards[b].tensor, places_[b]);
    });
    std::vector<SavedShard> shards;
    shards.reserve(order.size());
    for (const size_t at : order) shards.push_back(catalog_.shards[at]);
    catalog_.shards = std::move(shards);
    return std::move(catalog_);
  }

 private:
  // Where the next shard stands among those of its tensor: behind what came before, but with what
  // is alike bit by bit, and there what is here comes first.
  void Place(uint32_t tensor, const Box& box, const std::vector<uint64_t>& hashes, bool here) {
    const uint64_t content = Hash64(std::as_bytes(std::span(hashes)));
    const auto like =
        alike_.emplace(std::tuple(tensor, box.offsets(), box.shape(), content), places_.size());
    places_.emplace_back(like.first->second, here ? 0 : 1);
  }

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
  std::vector<std::pair<size_t, int>> places_;  // by shard, as added
  std::map<std::tuple<uint32_t, std::vector<int64_t>, std::vector<int64_t>, uint64_t>, size_t>
      alike_;  // the first shard of such content
};

// The snapshot whose tensor a file of the catalog is: each has added a file a tensor.
size_t SnapshotOf(std::span<const ReachedSnapshot> snapshots, uint32_t file) {
  size_t index = 0;
  for (size_t before = 0; before + snapshots[index].sealed.plan.size() <= file; ++index) {
    before += snapshots[index].sealed.plan.size();
  }
  return index;
}

// Tells the sources what the reader will ask them for.
// A source can then transfer all of its chunks in one request, instead of one at a time as the
// reader comes to them.
void Announce(std::span<const ReachedSnapshot> snapshots, const Catalog& catalog,
              const ReadPlan& reads) {
  std::vector<uint32_t> first_file(snapshots.size());
  for (size_t i = 1; i < snapshots.size(); ++i) {
    first_file[i] = first_file[i - 1] + static_cast<uint32_t>(snapshots[i - 1].sealed.plan.size());
  }
  std::map<size_t, std::vector<ChunkId>> wanted;
  for (const ReadBlock& block : BlocksOf(catalog, reads, /*verify=*/true)) {
    if (catalog.files[block.file].fetch == nullptr) continue;
    const size_t of = SnapshotOf(snapshots, block.file);
    wanted[of].push_back(
        {block.file - first_file[of], static_cast<uint32_t>(block.offset / kChunkBytes)});
  }
  for (auto& [of, chunks] : wanted) snapshots[of].source->Expect(std::move(chunks));
}

// Takes what a damaged snapshot holds out of the catalog.
// By location and not by file: a snapshot with one damaged chunk is not used for its other tensors
// either.
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
    if (sealed.step != first.step || sealed.attempt != first.attempt) {
      return InvalidArgument(snapshot.where + " is of step " + std::to_string(sealed.step) +
                             " of attempt " + std::to_string(sealed.attempt) + ", " +
                             snapshots.front().where + " of step " + std::to_string(first.step) +
                             " of attempt " + std::to_string(first.attempt));
    }
    RETURN_IF_ERROR(collector.Add(snapshot));
  }
  return collector.Take();
}

Status LoadFromSnapshots(std::span<const ReachedSnapshot> snapshots, const StatePlan& plan,
                         std::span<const std::span<std::byte>> memory, LoadedSnapshots& loaded) {
  CHECK(memory.size() == plan.size());
  ASSIGN_OR_RETURN(Catalog catalog, CatalogOfSnapshots(snapshots));
  auto wanted = WantedBoxes(catalog, plan);
  if (!wanted.ok()) {
    // A tensor that nobody reached holds is lost, one of another form of another model.
    if (wanted.status().code() != Code::kNotFound) return wanted.status();
    return DataLoss("no snapshot that can be reached holds it: " + wanted.status().message());
  }
  // Each round leaves out a damaged snapshot, so the loop ends. When the rest no longer holds an
  // element, PlanReads returns the error. Memory that an earlier round filled is overwritten.
  while (true) {
    ASSIGN_OR_RETURN(const ReadPlan reads,
                     PlanReads(catalog.shards, *wanted, catalog.ElementBytes(), catalog.Names()));
    loaded.bytes_needed = reads.bytes_needed;
    Announce(snapshots, catalog, reads);
    CatalogReader reader(io::PosixFileSystem(), catalog);  // which it asks for nothing
    const Status read = reader.Read(*wanted, memory);
    loaded.bytes_read += reader.count().memory_bytes + reader.count().fetched_bytes;
    loaded.bytes_fetched += reader.count().fetched_bytes;
    if (read.ok()) return read;
    if (!reader.damaged_file().has_value()) return read;
    loaded.damaged.push_back(read.message());
    loaded.left_out.push_back(SnapshotOf(snapshots, *reader.damaged_file()));
    LeaveOut(catalog.files[*reader.damaged_file()].path, catalog);
  }
}

}  // namespace longhaul::checkpoint
