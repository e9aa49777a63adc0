// A step of a run: its manifest and the headers of its shards.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "checkpoint/copy.h"
#include "checkpoint/directory.h"
#include "checkpoint/formats/internal/open_parts.h"
#include "checkpoint/formats/open_checkpoint.h"
#include "checkpoint/shard.h"

namespace longhaul::checkpoint {
namespace {

constexpr uint64_t kMaxManifestBytes = 256 << 20;

void AddShard(const CheckpointDirectory::OpenedShard& shard, Catalog& catalog) {
  CatalogFile file{shard.path, shard.file->bytes(), {}};
  for (size_t i = 0; i < shard.header.plan.size(); ++i) {
    uint64_t at = 0;
    for (const uint64_t hash : shard.header.chunks[i]) {
      const uint64_t bytes = std::min<uint64_t>(kChunkBytes, shard.header.plan.bytes(i) - at);
      file.chunks.push_back({shard.header.offsets[i] + at, bytes, hash});
      at += bytes;
    }
  }
  catalog.files.push_back(std::move(file));
}

std::string WithoutSlashes(const std::string& given) {
  std::string path = given;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// "runs/a/step-000000040.e3" as its folder and its name.
std::pair<std::string, std::string> ParentAndName(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {path.substr(0, std::max<size_t>(slash, 1)), path.substr(slash + 1)};
}

// The survey of the parent says why the one step that the user has named cannot be used.
StepSurvey OnlyStep(StepSurvey all, const std::string& name) {
  const auto other = [&](const auto& step) {
    return CheckpointDirectory::NameOf(step.step, step.attempt) != name;
  };
  std::erase_if(all.committed, other);
  std::erase_if(all.damaged, other);
  std::erase_if(all.uncommitted, other);
  return all;
}

}  // namespace

Result<Catalog> OpenPieces(io::FileSystem& files, const std::string& parent,
                           const Manifest& manifest, std::vector<DamagedFile>* damaged) {
  CheckpointDirectory directory(files, parent);
  Catalog catalog;
  catalog.format = Format::kLonghaul;
  catalog.path = parent + "/" + CheckpointDirectory::NameOf(manifest.step, manifest.attempt);
  catalog.job = manifest.job;
  catalog.step = manifest.step;
  catalog.attempt = manifest.attempt;
  catalog.world = manifest.world;
  catalog.tensors = manifest.tensors;
  for (const PieceFile& file : manifest.files) {
    const auto shard = directory.OpenShard(manifest, file);
    if (shard.ok()) {
      AddShard(*shard, catalog);
    } else if (damaged == nullptr) {
      return shard.status();
    } else {
      const std::string path = catalog.path + "/" + file.name;
      damaged->push_back({path, shard.status().message()});
      catalog.files.push_back({path, file.bytes, {}});
    }
  }
  for (const Piece& piece : manifest.pieces) {
    catalog.shards.push_back({piece.tensor, piece.box, piece.file, piece.offset});
  }
  // By tensor, as CheckCatalog and ReadRange require; within a tensor in the order of the files.
  std::stable_sort(catalog.shards.begin(), catalog.shards.end(),
                   [](const SavedShard& a, const SavedShard& b) { return a.tensor < b.tensor; });
  const Status checked = CheckCatalog(catalog);
  if (!checked.ok()) return checked.WithContext(catalog.path);
  return catalog;
}

Result<Catalog> OpenManifest(io::FileSystem& files, const std::string& parent,
                             const Manifest& manifest, std::vector<DamagedFile>* damaged) {
  ASSIGN_OR_RETURN(Catalog catalog, OpenPieces(files, parent, manifest, damaged));
  if (damaged != nullptr && !damaged->empty()) return catalog;
  const Status taken = internal::TakeTree(files, catalog);
  // With `damaged`, a damaged tree stays a tensor, and its damaged chunk is reported like those of
  // other tensors.
  const bool reported = damaged != nullptr && taken.code() == Code::kDataLoss;
  if (!taken.ok() && !reported) return taken;
  return catalog;
}

Result<StepsAt> FindSteps(io::FileSystem& files, const std::string& given) {
  StepsAt found;
  found.folder = WithoutSlashes(given);
  const auto [parent, last] = ParentAndName(found.folder);
  const Result<std::vector<std::string>> names = files.List(found.folder);
  if (names.status().code() == Code::kNotFound) return found;
  if (!names.ok()) return names.status();
  const auto any = [&](auto test) { return std::any_of(names->begin(), names->end(), test); };
  if (CheckpointDirectory::IsStepName(last)) {
    found.folder = parent;
    ASSIGN_OR_RETURN(found.steps, CheckpointDirectory(files, parent).Survey());
    found.steps = OnlyStep(std::move(found.steps), last);
    return found;
  }
  const bool steps = any([](const std::string& name) { return name.starts_with("step-"); });
  if (!steps && any([](const std::string& name) { return name == "checkpoints"; })) {
    found.folder += "/checkpoints";
  }
  CheckpointDirectory directory(files, found.folder);
  ASSIGN_OR_RETURN(found.steps, directory.Survey());
  const StepSurvey& all = found.steps;
  if (!all.committed.empty() || !all.damaged.empty() || !all.uncommitted.empty()) return found;
  const bool foreign = any([](const std::string& name) {
    return name == ".metadata" || name.ends_with(".safetensors") || name.ends_with(".index.json");
  });
  if (foreign) {
    return InvalidArgument(found.folder + " is a checkpoint of another format: longhaul " +
                           "checkpoint convert FROM FOLDER --to longhaul makes one of it");
  }
  return found;
}

// A damaged newest step is an error and not skipped: a user who names the run expects its newest
// state, and must choose an older one knowingly.
Result<Catalog> OpenNewest(io::FileSystem& files, const std::string& path,
                           std::vector<DamagedFile>* damaged) {
  ASSIGN_OR_RETURN(const StepsAt found, FindSteps(files, path));
  const StepSurvey& steps = found.steps;
  if (!steps.damaged.empty()) {
    const UnusableStep& bad = steps.damaged.front();
    const Manifest* good = steps.committed.empty() ? nullptr : &steps.committed.front();
    if (good == nullptr ||
        std::pair(bad.step, bad.attempt) > std::pair(good->step, good->attempt)) {
      return DataLoss("the newest step in " + found.folder + ", " +
                      CheckpointDirectory::NameOf(bad.step, bad.attempt) + ", is damaged (" +
                      bad.reason + "); " +
                      (good == nullptr
                           ? "no step there can be opened"
                           : "name the folder of an older one to open that, such as " +
                                 CheckpointDirectory::NameOf(good->step, good->attempt)));
    }
  }
  if (!steps.committed.empty()) {
    return OpenManifest(files, found.folder, steps.committed.front(), damaged);
  }
  return NotFound(found.folder + " has no step that is committed");
}

Result<Catalog> OpenStep(io::FileSystem& files, const std::string& given,
                         std::vector<DamagedFile>* damaged) {
  const std::string path = WithoutSlashes(given);
  const Result<std::vector<std::byte>> bytes = files.ReadAll(path + "/MANIFEST", kMaxManifestBytes);
  const auto [parent, last] = ParentAndName(path);
  if (bytes.status().code() == Code::kNotFound) {
    if (!CheckpointDirectory::IsStepName(last) || !files.List(path).ok()) {
      return OpenNewest(files, path, damaged);
    }
    return FailedPrecondition(path + " is not committed: it has no MANIFEST");
  }
  if (!bytes.ok()) return bytes.status();
  Result<Manifest> manifest =
      DecodeManifest({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  if (!manifest.ok()) return manifest.status().WithContext(path + "/MANIFEST");
  const std::string name = CheckpointDirectory::NameOf(manifest->step, manifest->attempt);
  if (last != name) {
    return DataLoss(path + ": its manifest is of " + name + ", so must be its name");
  }
  return OpenManifest(files, parent, *manifest, damaged);
}

}  // namespace longhaul::checkpoint
