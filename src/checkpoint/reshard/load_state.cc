#include "checkpoint/reshard/load_state.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "checkpoint/directory.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/formats/internal/open_parts.h"
#include "checkpoint/formats/open_checkpoint.h"
#include "checkpoint/reshard/box.h"
#include "checkpoint/shard.h"

namespace longhaul::checkpoint {
namespace {

Status ReadWhole(const CheckpointDirectory::OpenedShard& shard,
                 std::span<const std::span<std::byte>> memory) {
  for (size_t i = 0; i < memory.size(); ++i) {
    const Status read = ReadVerified(*shard.file, shard.header, i, 0, memory[i]);
    if (!read.ok()) return read.WithContext(shard.path);
  }
  return {};
}

}  // namespace

Result<std::vector<WantedShard>> WantedBoxes(const Catalog& catalog, const StatePlan& plan) {
  std::unordered_map<std::string_view, uint32_t> indexes;
  for (uint32_t i = 0; i < catalog.tensors.size(); ++i) {
    indexes.emplace(catalog.tensors[i].name, i);
  }
  std::vector<WantedShard> wanted;
  for (const TensorInfo& tensor : plan.tensors()) {
    const std::string what = Printable(tensor.global_name());
    const auto found = indexes.find(tensor.global_name());
    if (found == indexes.end()) return NotFound("the checkpoint has no tensor named " + what);
    const TensorInfo& saved = catalog.tensors[found->second];
    if (saved.dtype != tensor.dtype || saved.shape != tensor.global_shape()) {
      return FailedPrecondition(what + " is " + saved.dtype + " " +
                                ToString(Box::Whole(saved.shape)) + " in the checkpoint, " +
                                tensor.dtype + " " + ToString(Box::Whole(tensor.global_shape())) +
                                " is asked for");
    }
    wanted.push_back({found->second, tensor.part ? Box::At(tensor.part->offset, tensor.shape)
                                                 : Box::Whole(tensor.shape)});
  }
  return wanted;
}

// A rank that the checkpoint does not have, because the world was smaller, gets the plan of the
// first file as an example of the state's form.
Result<StatePlan> SavedPlan(io::FileSystem& files, const StepOfRank& of) {
  CheckpointDirectory directory(files, of.folder);
  ASSIGN_OR_RETURN(const Manifest manifest, directory.Read(of.step, of.attempt));
  const PieceFile* file = FileOfRank(manifest, of.rank);
  ASSIGN_OR_RETURN(const auto shard,
                   directory.OpenShard(manifest, file != nullptr ? *file : manifest.files.front()));
  return shard.header.plan;
}

Result<Loaded> LoadState(io::FileSystem& files, const StepOfRank& of, const StatePlan& plan,
                         std::span<const std::span<std::byte>> memory) {
  CHECK(memory.size() == plan.size());
  CheckpointDirectory directory(files, of.folder);
  ASSIGN_OR_RETURN(const Manifest manifest, directory.Read(of.step, of.attempt));
  if (const PieceFile* file = FileOfRank(manifest, of.rank)) {
    ASSIGN_OR_RETURN(const auto shard, directory.OpenShard(manifest, *file));
    // The common case: the same layout. The file is read in order, and no catalog of all ranks is
    // built.
    if (shard.header.plan == plan) {
      RETURN_IF_ERROR(ReadWhole(shard, memory));
      return Loaded{true, plan.total_bytes()};
    }
  }
  ASSIGN_OR_RETURN(Catalog catalog, OpenPieces(files, of.folder, manifest));
  Result<std::vector<WantedShard>> wanted = WantedBoxes(catalog, plan);
  if (wanted.status().code() == Code::kNotFound) {
    RETURN_IF_ERROR(internal::UseDottedNames(files, catalog));
    wanted = WantedBoxes(catalog, plan);
  }
  if (!wanted.ok()) {
    return FailedPrecondition("the checkpoint is of another state: " + wanted.status().message());
  }
  CatalogReader reader(files, catalog);
  RETURN_IF_ERROR(reader.Read(*wanted, memory));
  return Loaded{false, reader.count().bytes};
}

}  // namespace longhaul::checkpoint
