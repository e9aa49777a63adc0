#include "checkpoint/directory.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"

namespace longhaul::checkpoint {
namespace {

constexpr uint64_t kMaxManifestBytes = 256 << 20;
constexpr size_t kAppendBytes = 4 << 20;  // a write: large, yet its progress is seen
constexpr std::string_view kManifestName = "MANIFEST";
constexpr uint32_t kPieceFormat = 1;

std::string Hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

struct Name {
  uint64_t step = 0;
  uint64_t epoch = 0;
};

// The step and epoch of a directory that NameOf could have named.
std::optional<Name> ParseName(const std::string& text) {
  const std::string_view view = text;
  const size_t dot = view.find(".e");
  if (!view.starts_with("step-") || dot == std::string_view::npos) return std::nullopt;
  const Result<uint64_t> step = ParseUint64(view.substr(5, dot - 5));
  const Result<uint64_t> epoch = ParseUint64(view.substr(dot + 2));
  if (!step.ok() || !epoch.ok()) return std::nullopt;
  if (CheckpointDirectory::NameOf(*step, *epoch) != text) return std::nullopt;
  return Name{*step, *epoch};
}

// A file being written and hashed.
class HashedFile {
 public:
  static Result<HashedFile> Create(io::FileSystem& files, const std::string& path) {
    ASSIGN_OR_RETURN(std::unique_ptr<io::WritableFile> file, files.Create(path));
    return HashedFile(std::move(file));
  }

  Status Append(std::span<const std::byte> bytes) {
    for (size_t at = 0; at < bytes.size(); at += kAppendBytes) {
      const auto part = bytes.subspan(at, std::min(kAppendBytes, bytes.size() - at));
      XXH3_64bits_update(hash_.get(), part.data(), part.size());
      RETURN_IF_ERROR(file_->Append(part));
    }
    bytes_ += bytes.size();
    return {};
  }
  Status Finish() {
    RETURN_IF_ERROR(file_->Sync());
    return file_->Close();
  }

  uint64_t bytes() const { return bytes_; }
  uint64_t hash() const { return XXH3_64bits_digest(hash_.get()); }

 private:
  explicit HashedFile(std::unique_ptr<io::WritableFile> file)
      : file_(std::move(file)), hash_(XXH3_createState(), XXH3_freeState) {
    XXH3_64bits_reset(hash_.get());
  }

  std::unique_ptr<io::WritableFile> file_;
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash_;
  uint64_t bytes_ = 0;
};

TextMap PieceMetadata(uint64_t step, uint64_t epoch, uint32_t rank, uint32_t world) {
  return {{"longhaul.format", std::to_string(kPieceFormat)},
          {"longhaul.step", std::to_string(step)},
          {"longhaul.epoch", std::to_string(epoch)},
          {"longhaul.rank", std::to_string(rank)},
          {"longhaul.world", std::to_string(world)}};
}

std::string HashKey(const TensorInfo& tensor) { return "xxh3-64:" + tensor.name; }

// Writes a piece to `path` and syncs it.
Result<PieceFile> WriteFile(io::FileSystem& files, const std::string& path, const StatePlan& plan,
                            std::span<const std::span<const std::byte>> tensors, TextMap metadata) {
  for (size_t i = 0; i < plan.size(); ++i) {
    metadata[HashKey(plan.tensors()[i])] = Hex(Hash64(tensors[i]));
  }
  ASSIGN_OR_RETURN(const std::string header, EncodeSafetensorsHeader(plan, metadata));
  ASSIGN_OR_RETURN(HashedFile file, HashedFile::Create(files, path));
  RETURN_IF_ERROR(file.Append(std::as_bytes(std::span(header))));
  for (const auto tensor : tensors) RETURN_IF_ERROR(file.Append(tensor));
  RETURN_IF_ERROR(file.Finish());
  return PieceFile{"", 0, file.bytes(), file.hash()};
}

// Checks what a verified file says of itself: it belongs here, and each tensor is what was hashed.
Status CheckPiece(const SafetensorsHeader& header, std::span<const std::byte> file,
                  const TextMap& expected) {
  for (const auto& [key, value] : expected) {
    const auto found = header.metadata.find(key);
    if (found == header.metadata.end() || found->second != value) {
      return DataLoss("its " + key + " is not " + value);
    }
  }
  for (size_t i = 0; i < header.plan.size(); ++i) {
    const TensorInfo& tensor = header.plan.tensors()[i];
    const auto found = header.metadata.find(HashKey(tensor));
    const auto bytes = file.subspan(header.offsets[i], header.plan.bytes(i));
    if (found == header.metadata.end() || found->second != Hex(Hash64(bytes))) {
      return DataLoss("the hash of tensor " + Printable(tensor.name) + " differs");
    }
  }
  return {};
}

}  // namespace

CheckpointDirectory::CheckpointDirectory(io::FileSystem& files, std::string path)
    : files_(files), path_(std::move(path)) {}

std::string CheckpointDirectory::NameOf(uint64_t step, uint64_t epoch) {
  char name[64];
  std::snprintf(name, sizeof(name), "step-%09llu.e%llu", static_cast<unsigned long long>(step),
                static_cast<unsigned long long>(epoch));
  return name;
}

std::string CheckpointDirectory::PathOf(uint64_t step, uint64_t epoch) const {
  return path_ + "/" + NameOf(step, epoch);
}

Result<PieceFile> CheckpointDirectory::WritePiece(
    uint64_t step, uint64_t epoch, uint32_t rank, uint32_t world, const StatePlan& plan,
    std::span<const std::span<const std::byte>> tensors) {
  CHECK(rank < world && tensors.size() == plan.size());
  for (size_t i = 0; i < tensors.size(); ++i) CHECK(tensors[i].size() == plan.bytes(i));

  const std::string directory = PathOf(step, epoch);
  if (const Result<Manifest> committed = ReadManifest(directory); committed.ok()) {
    for (const PieceFile& file : committed->files) {
      if (file.rank == rank && committed->world == world) return file;
    }
    return AlreadyExists(directory + " is committed without rank " + std::to_string(rank));
  }
  RETURN_IF_ERROR(files_.MakeDirectories(directory));
  // The new directories' own entries must be durable before anything in them counts.
  RETURN_IF_ERROR(files_.SyncDirectory(ParentOf(path_)));
  RETURN_IF_ERROR(files_.SyncDirectory(path_));

  const std::string name = PieceName(rank, world);
  const std::string temporary = directory + "/" + name + ".tmp";
  Result<PieceFile> written =
      WriteFile(files_, temporary, plan, tensors, PieceMetadata(step, epoch, rank, world));
  Status status = written.status();
  if (status.ok()) status = files_.Rename(temporary, directory + "/" + name);
  if (!status.ok()) {
    // Clean up as far as it goes: the directory stays if another rank's file is in it. The first
    // failure is the one to tell.
    (void)files_.Remove(temporary);
    (void)files_.RemoveDirectory(directory);
    return status;
  }
  RETURN_IF_ERROR(files_.SyncDirectory(directory));
  written->name = name;
  written->rank = rank;
  return written;
}

Status CheckpointDirectory::Commit(const Manifest& manifest) {
  const std::string text = EncodeManifest(manifest);
  const Result<Manifest> sound = DecodeManifest(text);
  if (!sound.ok()) return InvalidArgument("cannot commit: " + sound.status().message());

  const std::string directory = PathOf(manifest.step, manifest.epoch);
  if (const Result<Manifest> there = ReadManifest(directory); there.ok()) {
    if (*there != manifest) return AlreadyExists(directory + " is committed with other files");
    return files_.SyncDirectory(directory);  // an earlier attempt may have failed at this
  }
  for (const PieceFile& file : manifest.files) {
    const std::string path = directory + "/" + file.name;
    ASSIGN_OR_RETURN(const uint64_t bytes, files_.Size(path));
    if (bytes != file.bytes) {
      return FailedPrecondition(path + " has " + std::to_string(bytes) + " bytes, not " +
                                std::to_string(file.bytes));
    }
  }
  return io::WriteTextAtomically(files_, directory + "/" + std::string(kManifestName), text);
}

Result<Manifest> CheckpointDirectory::ReadManifest(const std::string& directory) {
  const std::string path = directory + "/" + std::string(kManifestName);
  ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, files_.ReadAll(path, kMaxManifestBytes));
  Result<Manifest> manifest =
      DecodeManifest({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!manifest.ok()) return manifest.status().WithContext(path);
  if (path_ + "/" + NameOf(manifest->step, manifest->epoch) != directory) {
    return DataLoss(path + ": it belongs to step " + std::to_string(manifest->step));
  }
  return manifest;
}

Result<std::vector<Manifest>> CheckpointDirectory::List() {
  const Result<std::vector<std::string>> names = files_.List(path_);
  std::vector<Manifest> committed;
  if (names.status().code() == Code::kNotFound) return committed;
  if (!names.ok()) return names.status();
  // Damage and absence make a checkpoint uncommitted. Anything else, no permission say, is told: to
  // see nothing and start from scratch would be worse.
  const auto tolerable = [](Code code) {
    return code == Code::kNotFound || code == Code::kDataLoss;
  };
  for (const std::string& name : *names) {
    const std::optional<Name> parsed = ParseName(name);
    if (!parsed) continue;
    const std::string directory = path_ + "/" + name;
    Result<Manifest> manifest = ReadManifest(directory);
    if (!manifest.ok()) {
      if (tolerable(manifest.status().code())) continue;
      return manifest.status();
    }
    bool complete = true;
    for (const PieceFile& file : manifest->files) {
      const Result<uint64_t> bytes = files_.Size(directory + "/" + file.name);
      if (!bytes.ok() && !tolerable(bytes.status().code())) return bytes.status();
      complete = complete && bytes.ok() && *bytes == file.bytes;
    }
    if (complete) committed.push_back(std::move(manifest).value());
  }
  std::sort(committed.begin(), committed.end(), [](const Manifest& a, const Manifest& b) {
    return std::pair(a.step, a.epoch) > std::pair(b.step, b.epoch);
  });
  return committed;
}

Result<LoadedState> CheckpointDirectory::ReadPiece(uint64_t step, uint64_t epoch, uint32_t rank) {
  const std::string directory = PathOf(step, epoch);
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(directory));
  const auto file = std::find_if(manifest.files.begin(), manifest.files.end(),
                                 [&](const PieceFile& piece) { return piece.rank == rank; });
  if (file == manifest.files.end()) {
    return NotFound(directory + " has no piece of rank " + std::to_string(rank));
  }
  const std::string path = directory + "/" + file->name;
  Result<std::vector<std::byte>> bytes = files_.ReadAll(path, file->bytes);
  if (!bytes.ok()) {
    // A committed file that is absent or has grown is damage, not a question of what to ask for.
    const Code code = bytes.status().code();
    const bool damage = code == Code::kNotFound || code == Code::kResourceExhausted;
    return damage ? DataLoss(bytes.status().message()) : bytes.status();
  }
  if (bytes->size() != file->bytes) return DataLoss(path + ": it is cut short");
  if (Hash64(*bytes) != file->hash) return DataLoss(path + ": the file's hash differs");

  Result<SafetensorsHeader> header = ParseSafetensors(*bytes);
  if (!header.ok()) return header.status().WithContext(path);
  const Status piece =
      CheckPiece(*header, *bytes, PieceMetadata(step, epoch, rank, manifest.world));
  if (!piece.ok()) return piece.WithContext(path);
  return LoadedState(std::move(header->plan), std::move(bytes).value(), std::move(header->offsets));
}

Status CheckpointDirectory::RemoveTree(const std::string& directory) {
  // The manifest goes first: from then on a crash leaves garbage, never a checkpoint with holes.
  const Status unlisted = files_.Remove(directory + "/" + std::string(kManifestName));
  if (!unlisted.ok() && unlisted.code() != Code::kNotFound) return unlisted;
  if (unlisted.ok()) RETURN_IF_ERROR(files_.SyncDirectory(directory));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(directory));
  for (const std::string& name : names) RETURN_IF_ERROR(files_.Remove(directory + "/" + name));
  return files_.RemoveDirectory(directory);
}

Status CheckpointDirectory::Prune(size_t keep, std::span<const uint64_t> protected_steps,
                                  uint64_t current_epoch) {
  ASSIGN_OR_RETURN(const std::vector<Manifest> committed, List());
  if (committed.empty()) return {};
  for (size_t i = std::max<size_t>(keep, 1); i < committed.size(); ++i) {
    const uint64_t step = committed[i].step;
    if (std::find(protected_steps.begin(), protected_steps.end(), step) != protected_steps.end()) {
      continue;
    }
    RETURN_IF_ERROR(RemoveTree(PathOf(step, committed[i].epoch)));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(path_));
  for (const std::string& name : names) {
    const std::optional<Name> parsed = ParseName(name);
    if (!parsed || parsed->step >= committed[0].step || parsed->epoch == current_epoch) continue;
    const bool is_committed =
        std::any_of(committed.begin(), committed.end(), [&](const Manifest& manifest) {
          return manifest.step == parsed->step && manifest.epoch == parsed->epoch;
        });
    if (!is_committed) RETURN_IF_ERROR(RemoveTree(path_ + "/" + name));
  }
  return {};
}

}  // namespace longhaul::checkpoint
