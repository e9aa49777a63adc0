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

}  // namespace

Result<Catalog> OpenPieces(io::FileSystem& files, const std::string& parent,
                           const Manifest& manifest, std::vector<DamagedFile>* damaged) {
  CheckpointDirectory directory(files, parent);
  Catalog catalog;
  catalog.format = Format::kLonghaul;
  catalog.path = parent + "/" + CheckpointDirectory::NameOf(manifest.step, manifest.epoch);
  catalog.job = manifest.job;
  catalog.step = manifest.step;
  catalog.epoch = manifest.epoch;
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
  std::stable_sort(catalog.shards.begin(), catalog.shards.end(),
                   [](const SavedShard& a, const SavedShard& b) { return a.tensor < b.tensor; });
  const Status checked = CheckCatalog(catalog);
  if (!checked.ok()) return checked.WithContext(catalog.path);
  return catalog;
}

Result<Catalog> OpenManifest(io::FileSystem& files, const std::string& parent,
                             const Manifest& manifest, std::vector<DamagedFile>* damaged) {
  ASSIGN_OR_RETURN(Catalog catalog, OpenPieces(files, parent, manifest, damaged));
  if (damaged == nullptr || damaged->empty()) RETURN_IF_ERROR(internal::TakeTree(files, catalog));
  return catalog;
}

Result<Catalog> OpenStep(io::FileSystem& files, const std::string& given,
                         std::vector<DamagedFile>* damaged) {
  std::string path = given;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (!files.Size(path + "/MANIFEST").ok()) {
    CheckpointDirectory directory(files, path);
    ASSIGN_OR_RETURN(const std::vector<Manifest> committed, directory.List());
    if (!committed.empty()) return OpenManifest(files, path, committed.front(), damaged);
    return NotFound(path + " has no step that is committed");
  }
  ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                   files.ReadAll(path + "/MANIFEST", kMaxManifestBytes));
  Result<Manifest> manifest =
      DecodeManifest({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!manifest.ok()) return manifest.status().WithContext(path + "/MANIFEST");
  const size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash);
  const std::string name = CheckpointDirectory::NameOf(manifest->step, manifest->epoch);
  if (path.substr(slash == std::string::npos ? 0 : slash + 1) != name) {
    return DataLoss(path + ": its manifest is of " + name + ", so must be its name");
  }
  return OpenManifest(files, parent, *manifest, damaged);
}

}  // namespace longhaul::checkpoint
