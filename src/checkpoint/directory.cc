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
#include "checkpoint/copy.h"

namespace longhaul::checkpoint {
namespace {

constexpr uint64_t kMaxManifestBytes = 256 << 20;
constexpr std::string_view kManifestName = "MANIFEST";

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

struct Name {
  uint64_t step = 0;
  uint64_t attempt = 0;
};

// The step and attempt of a directory that NameOf could have named.
std::optional<Name> ParseName(const std::string& text) {
  const std::string_view view = text;
  const size_t dot = view.find(".e");
  if (!view.starts_with("step-") || dot == std::string_view::npos) return std::nullopt;
  const Result<uint64_t> step = ParseUint64(view.substr(5, dot - 5));
  const Result<uint64_t> attempt = ParseUint64(view.substr(dot + 2));
  if (!step.ok() || !attempt.ok()) return std::nullopt;
  // Only the exact name counts. "step-1.e1", or a name with a suffix, is no folder of this class
  // and is neither read nor removed.
  if (CheckpointDirectory::NameOf(*step, *attempt) != text) return std::nullopt;
  return Name{*step, *attempt};
}

// Whether a code means damage or absence. Any other error, for example a missing permission, is
// returned to the caller: a folder that cannot be read must not be taken for an empty one.
bool Tolerable(Code code) { return code == Code::kNotFound || code == Code::kDataLoss; }

// Whether a step's folder holds the file of every rank of a world.
// List returns sorted names, as the binary search requires. Only names are compared: this decides a
// message to the user, not whether the step may be loaded.
bool HasAllFiles(io::FileSystem& files, const std::string& directory) {
  const Result<std::vector<std::string>> names = files.List(directory);
  if (!names.ok()) return false;
  for (const std::string& name : *names) {
    const size_t of = name.find("-of-");
    if (!name.starts_with("rank-") || of == std::string::npos) continue;
    // Five digits, and more where there are more ranks.
    const std::string_view number = std::string_view(name).substr(of + 4);
    const Result<uint64_t> world = ParseUint64(number.substr(0, number.find('.')));
    if (!world.ok() || *world == 0 || *world > names->size()) return false;
    for (uint32_t rank = 0; rank < *world; ++rank) {
      const std::string wanted = PieceName(rank, static_cast<uint32_t>(*world));
      if (!std::binary_search(names->begin(), names->end(), wanted)) return false;
    }
    return true;
  }
  return false;
}

// Tensors that follow each other in memory without a gap, as the arena's mostly do.
struct Run {
  std::span<const std::byte> bytes;
  size_t first = 0, last = 0;  // tensors
};
// Few long writes instead of one for each tensor: a state may have thousands of small tensors.
std::vector<Run> RunsOf(std::span<const std::span<const std::byte>> tensors) {
  std::vector<Run> runs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool follows =
        !runs.empty() && runs.back().bytes.data() + runs.back().bytes.size() == tensors[i].data();
    if (follows) {
      runs.back().bytes = {runs.back().bytes.data(), runs.back().bytes.size() + tensors[i].size()};
      runs.back().last = i + 1;
    } else {
      runs.push_back({tensors[i], i, i + 1});
    }
  }
  return runs;
}

// The chunks of a run's tensors in their order, each held against its hash once.
class RunVerifier {
 public:
  RunVerifier(const Run& run, const StatePlan& plan, const ChunkHashes& hashes,
              std::span<const std::span<const std::byte>> tensors)
      : plan_(plan), hashes_(hashes), tensors_(tensors), tensor_(run.first), last_(run.last) {}

  // All chunks that end at or before `end`.
  Status VerifyUpTo(const std::byte* end) {
    for (; tensor_ < last_; ++tensor_, at_ = 0) {
      const auto tensor = tensors_[tensor_];
      for (; at_ < tensor.size(); at_ += kChunkBytes) {
        const auto chunk = tensor.subspan(at_, std::min(kChunkBytes, tensor.size() - at_));
        if (chunk.data() + chunk.size() > end) return {};
        if (HashChunk(chunk) == hashes_[tensor_][at_ / kChunkBytes]) continue;
        return DataLoss("tensor " + Printable(plan_.tensors()[tensor_].name) + ", chunk " +
                        std::to_string(at_ / kChunkBytes) +
                        ": the hash differs before it is saved");
      }
    }
    return {};
  }

 private:
  const StatePlan& plan_;
  const ChunkHashes& hashes_;
  std::span<const std::span<const std::byte>> tensors_;
  size_t tensor_;
  size_t last_;
  size_t at_ = 0;  // of the next chunk in the tensor
};

// Writes a shard to `path`, verifying every chunk, and syncs it. A chunk is hashed while the disk
// is already at work on it: a file with a bad one never gets its name. A hash that differs here
// means that the memory has changed since the seal. The caller removes the temporary file.
Status WriteFile(io::FileSystem& files, const std::string& path, const std::string& header,
                 const StatePlan& plan, const ChunkHashes& hashes,
                 std::span<const std::span<const std::byte>> tensors) {
  constexpr size_t kAtOnce = 4 * kChunkBytes;
  ASSIGN_OR_RETURN(const std::unique_ptr<io::WritableFile> file,
                   files.CreateBulk(path, header.size() + plan.total_bytes()));
  RETURN_IF_ERROR(file->AppendStable(std::as_bytes(std::span(header))));
  for (const Run& run : RunsOf(tensors)) {
    RunVerifier verifier(run, plan, hashes, tensors);
    for (size_t at = 0; at < run.bytes.size(); at += kAtOnce) {
      const auto part = run.bytes.subspan(at, std::min(kAtOnce, run.bytes.size() - at));
      RETURN_IF_ERROR(file->AppendStable(part));
      RETURN_IF_ERROR(verifier.VerifyUpTo(part.data() + part.size()));
    }
  }
  RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

// The shard's bytes to `path`, synced.
// Unlike WriteFile, each chunk is verified before it is written: at a second tier without a rename,
// a file is visible as soon as it is complete.
Status WriteCopy(io::FileSystem& files, const std::string& path,
                 const CheckpointDirectory::OpenedShard& shard,
                 const CheckpointDirectory::Pace& pace) {
  constexpr uint64_t kAtOnce = 4 * kChunkBytes;
  const ShardHeader& header = shard.header;
  ASSIGN_OR_RETURN(const std::unique_ptr<io::WritableFile> file,
                   files.CreateBulk(path, shard.file->bytes()));
  std::vector<std::byte> part(header.header_bytes);
  RETURN_IF_ERROR(shard.file->Read(0, part));
  // What was read a moment ago to be parsed may have changed since.
  if (Hash64(part) != header.hash) return DataLoss(shard.path + ": its header has changed");
  RETURN_IF_ERROR(file->Append(part));
  for (size_t i = 0; i < header.plan.size(); ++i) {
    for (uint64_t at = 0; at < header.plan.bytes(i); at += part.size()) {
      part.resize(std::min(kAtOnce, header.plan.bytes(i) - at));
      if (pace && !pace(part.size())) return CancelledError("stopped");
      const Status read = ReadVerified(*shard.file, header, i, at, part);
      if (!read.ok()) return read.WithContext(shard.path);
      RETURN_IF_ERROR(file->Append(part));
    }
  }
  RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

CheckpointDirectory::CheckpointDirectory(io::FileSystem& files, std::string path)
    : files_(files), path_(std::move(path)) {}

std::string CheckpointDirectory::NameOf(uint64_t step, uint64_t attempt) {
  char name[64];
  std::snprintf(name, sizeof(name), "step-%09llu.e%llu", static_cast<unsigned long long>(step),
                static_cast<unsigned long long>(attempt));
  return name;
}

bool CheckpointDirectory::IsStepName(const std::string& name) {
  return ParseName(name).has_value();
}

std::string CheckpointDirectory::PathOf(uint64_t step, uint64_t attempt) const {
  return path_ + "/" + NameOf(step, attempt);
}

Result<PieceFile> CheckpointDirectory::WritePiece(
    uint64_t step, uint64_t attempt, uint32_t rank, uint32_t world, const StatePlan& plan,
    std::span<const std::span<const std::byte>> tensors) {
  return WriteHashedPiece({step, attempt, rank, world}, plan, HashTensors(tensors), tensors);
}

Result<PieceFile> CheckpointDirectory::WriteHashedPiece(
    const ShardId& id, const StatePlan& plan, const ChunkHashes& hashes,
    std::span<const std::span<const std::byte>> tensors) {
  CHECK(id.rank < id.world && tensors.size() == plan.size());
  uint64_t data_bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    CHECK(tensors[i].size() == plan.bytes(i));
    data_bytes += tensors[i].size();
  }
  const std::string directory = PathOf(id.step, id.attempt);
  // A repeated order, for example by a new agent after the commit. A committed file is never
  // written again: a crash in the middle would damage a good checkpoint.
  if (const Result<Manifest> committed = ReadManifest(directory); committed.ok()) {
    const PieceFile* file = FileOfRank(*committed, id.rank);
    if (file != nullptr && committed->world == id.world) return *file;
    return AlreadyExists(directory + " is committed without rank " + std::to_string(id.rank));
  }
  ASSIGN_OR_RETURN(const std::string header, EncodeShardHeader(id, plan, hashes));
  RETURN_IF_ERROR(files_.MakeDirectories(directory));
  // The new directories' own entries must be durable before anything in them counts.
  RETURN_IF_ERROR(files_.SyncDirectory(ParentOf(path_)));
  RETURN_IF_ERROR(files_.SyncDirectory(path_));

  const std::string name = PieceName(id.rank, id.world);
  const std::string temporary = directory + "/" + name + ".tmp";
  Status status = WriteFile(files_, temporary, header, plan, hashes, tensors);
  if (status.ok()) status = files_.Rename(temporary, directory + "/" + name);
  if (!status.ok()) {
    // Clean up as far as it goes: the directory stays if another rank's file is in it. The first
    // failure is the one to tell.
    (void)files_.Remove(temporary);
    (void)files_.RemoveDirectory(directory);
    return status;
  }
  RETURN_IF_ERROR(files_.SyncDirectory(directory));
  return PieceFile{name, id.rank, header.size() + data_bytes, Hash64(header), header.size()};
}

Status CheckpointDirectory::TakeShard(CheckpointDirectory& from, const Manifest& manifest,
                                      const PieceFile& file, const Pace& pace) {
  ASSIGN_OR_RETURN(const OpenedShard shard, from.OpenShard(manifest, file, Reading::kWhole));
  if (shard.file->bytes() != file.bytes) {
    return DataLoss(shard.path + " has " + std::to_string(shard.file->bytes()) + " bytes, not " +
                    std::to_string(file.bytes));
  }
  // A file gets its name, or appears, when it is whole.
  const std::string directory = PathOf(manifest.step, manifest.attempt);
  const std::string path = directory + "/" + file.name;
  const Result<uint64_t> there = files_.Size(path);
  // A copy that was interrupted continues with the files that are not there yet.
  if (there.ok() && *there == file.bytes && OpenShard(manifest, file).ok()) return {};

  RETURN_IF_ERROR(files_.MakeDirectories(directory));
  RETURN_IF_ERROR(files_.SyncDirectory(ParentOf(path_)));
  RETURN_IF_ERROR(files_.SyncDirectory(path_));
  const bool whole = files_.appears_whole();
  const std::string temporary = whole ? path : path + ".tmp";
  Status status = WriteCopy(files_, temporary, shard, pace);
  if (status.ok() && !whole) status = files_.Rename(temporary, path);
  if (!status.ok()) {
    if (!whole) (void)files_.Remove(temporary);
    (void)files_.RemoveDirectory(directory);
    return status;
  }
  return files_.SyncDirectory(directory);
}

// The pieces come from the headers of the files and not from the order, so the manifest describes
// what is on disk. Only headers are read: the contents were verified when they were written, and
// each read verifies them again.
Status CheckpointDirectory::Commit(const Manifest& order) {
  const std::string directory = PathOf(order.step, order.attempt);
  Manifest manifest = order;
  manifest.tensors.clear();
  manifest.files.clear();
  manifest.pieces.clear();
  for (const PieceFile& file : order.files) {
    const std::string path = directory + "/" + file.name;
    ASSIGN_OR_RETURN(const uint64_t bytes, files_.Size(path));
    if (bytes != file.bytes) {
      return FailedPrecondition(path + " has " + std::to_string(bytes) + " bytes, not " +
                                std::to_string(file.bytes));
    }
    ASSIGN_OR_RETURN(const OpenedShard shard, OpenShard(order, file));
    manifest.files.push_back(file);
    const Status added = AddPieces(shard.header, manifest);
    if (!added.ok()) return added.WithContext(path);
  }
  const std::string text = EncodeManifest(manifest);
  // The reader's own checks decide whether the files form a checkpoint. A manifest that it would
  // refuse must not be written.
  const Result<Manifest> sound = DecodeManifest(text);
  if (!sound.ok()) return InvalidArgument("cannot commit: " + sound.status().message());

  if (const Result<Manifest> there = ReadManifest(directory); there.ok()) {
    // A commit is idempotent for the same files. Other files under the same step and attempt would
    // be a bug or a second writer.
    if (*there != manifest) return AlreadyExists(directory + " is committed with other files");
    return files_.SyncDirectory(directory);  // an earlier attempt may have failed at this
  }
  return io::WriteTextAtomically(files_, directory + "/" + std::string(kManifestName), text);
}

Result<Manifest> CheckpointDirectory::Read(uint64_t step, uint64_t attempt) {
  return ReadManifest(PathOf(step, attempt));
}

Result<Manifest> CheckpointDirectory::ReadManifest(const std::string& directory) {
  const std::string path = directory + "/" + std::string(kManifestName);
  ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, files_.ReadAll(path, kMaxManifestBytes));
  Result<Manifest> manifest =
      DecodeManifest({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!manifest.ok()) return manifest.status().WithContext(path);
  // A folder that was renamed or copied by hand would otherwise be restored as another step.
  if (path_ + "/" + NameOf(manifest->step, manifest->attempt) != directory) {
    return DataLoss(path + ": it belongs to step " + std::to_string(manifest->step));
  }
  return manifest;
}

// Why the files that a manifest names are not all there in their sizes; nothing when they are.
Result<std::optional<std::string>> CheckpointDirectory::MissingFile(const Manifest& manifest) {
  const std::string directory = PathOf(manifest.step, manifest.attempt);
  for (const PieceFile& file : manifest.files) {
    const Result<uint64_t> bytes = files_.Size(directory + "/" + file.name);
    if (bytes.ok() && *bytes == file.bytes) continue;
    if (bytes.ok()) {
      return std::optional(file.name + " has " + std::to_string(*bytes) + " bytes, its MANIFEST " +
                           "says " + std::to_string(file.bytes));
    }
    if (!Tolerable(bytes.status().code())) return bytes.status();
    return std::optional(file.name + " is absent");
  }
  return std::optional<std::string>();
}

Result<StepSurvey> CheckpointDirectory::Survey() {
  StepSurvey survey;
  const Result<std::vector<std::string>> names = files_.List(path_);
  if (names.status().code() == Code::kNotFound) return survey;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const std::optional<Name> parsed = ParseName(name);
    if (!parsed) continue;
    const std::string directory = path_ + "/" + name;
    Result<Manifest> manifest = ReadManifest(directory);
    // Without a manifest the step was never committed, or is being written now.
    if (manifest.status().code() == Code::kNotFound) {
      const bool complete = HasAllFiles(files_, directory);
      survey.uncommitted.push_back({parsed->step, parsed->attempt, "it has no MANIFEST", complete});
      continue;
    }
    if (!manifest.ok()) {
      if (!Tolerable(manifest.status().code())) return manifest.status();
      survey.damaged.push_back({parsed->step, parsed->attempt, manifest.status().message()});
      continue;
    }
    // Sizes only. To read all contents would take as long as a restore; Verify does it on request.
    ASSIGN_OR_RETURN(const std::optional<std::string> missing, MissingFile(*manifest));
    if (!missing) {
      survey.committed.push_back(std::move(manifest).value());
    } else if (files_.Size(directory + "/" + std::string(kManifestName)).status().code() !=
               Code::kNotFound) {  // else it was removed between the two looks
      survey.damaged.push_back({parsed->step, parsed->attempt, directory + ": " + *missing});
    }
  }
  const auto newest_first = [](const auto& a, const auto& b) {
    return std::pair(a.step, a.attempt) > std::pair(b.step, b.attempt);
  };
  std::sort(survey.committed.begin(), survey.committed.end(), newest_first);
  std::sort(survey.damaged.begin(), survey.damaged.end(), newest_first);
  std::sort(survey.uncommitted.begin(), survey.uncommitted.end(), newest_first);
  return survey;
}

Result<std::vector<Manifest>> CheckpointDirectory::List() {
  ASSIGN_OR_RETURN(StepSurvey survey, Survey());
  return std::move(survey.committed);
}

// The shard's own id is compared as well as its hash: two ranks' files with exchanged names would
// pass a check of names.
Result<CheckpointDirectory::OpenedShard> CheckpointDirectory::OpenShard(const Manifest& manifest,
                                                                        const PieceFile& file,
                                                                        Reading reading) {
  OpenedShard shard;
  shard.path = PathOf(manifest.step, manifest.attempt) + "/" + file.name;
  Result<std::unique_ptr<io::ReadableFile>> opened =
      reading == Reading::kWhole ? files_.OpenBulk(shard.path) : files_.Open(shard.path);
  if (!opened.ok()) {
    // A committed file that is absent is damage, not a question of what to ask for.
    const bool damage = opened.status().code() == Code::kNotFound;
    return damage ? DataLoss(opened.status().message()) : opened.status();
  }
  shard.file = std::move(opened).value();
  Result<ShardHeader> header = ReadShardHeader(*shard.file, file);
  if (!header.ok()) return header.status().WithContext(shard.path);
  shard.header = std::move(header).value();
  const ShardId wanted{manifest.step, manifest.attempt, file.rank, manifest.world};
  if (shard.header.id != wanted) {
    return DataLoss(shard.path + ": it belongs to another step, attempt, rank or world");
  }
  return shard;
}

Result<LoadedState> CheckpointDirectory::ReadPiece(uint64_t step, uint64_t attempt, uint32_t rank) {
  const std::string directory = PathOf(step, attempt);
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(directory));
  const PieceFile* file = FileOfRank(manifest, rank);
  if (file == nullptr) {
    return NotFound(directory + " has no piece of rank " + std::to_string(rank));
  }
  ASSIGN_OR_RETURN(OpenedShard shard, OpenShard(manifest, *file));
  const StatePlan& plan = shard.header.plan;
  std::vector<std::byte> storage(plan.total_bytes());
  std::vector<uint64_t> offsets;
  uint64_t at = 0;
  for (size_t i = 0; i < plan.size(); ++i) {
    offsets.push_back(at);
    const auto to = std::span(storage).subspan(at, plan.bytes(i));
    const Status read = ReadVerified(*shard.file, shard.header, i, 0, to);
    if (!read.ok()) return read.WithContext(shard.path);
    at += to.size();
  }
  return LoadedState(std::move(shard.header.plan), std::move(storage), std::move(offsets));
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

// Reads whole chunks, in the order of the file, so that a disk reads sequentially.
Status CheckpointDirectory::Verify(const Manifest& manifest,
                                   const std::function<bool(uint64_t, uint64_t)>& progress) {
  uint64_t total = 0, done = 0;
  for (const PieceFile& file : manifest.files) total += file.bytes;
  std::vector<std::byte> chunk;
  for (const PieceFile& file : manifest.files) {
    ASSIGN_OR_RETURN(const OpenedShard shard, OpenShard(manifest, file, Reading::kWhole));
    for (size_t i = 0; i < shard.header.plan.size(); ++i) {
      const uint64_t bytes = shard.header.plan.bytes(i);
      for (uint64_t at = 0; at < bytes; at += kChunkBytes) {
        chunk.resize(std::min<uint64_t>(kChunkBytes, bytes - at));
        const Status read = ReadVerified(*shard.file, shard.header, i, at, chunk);
        if (!read.ok()) return read.WithContext(shard.path);
        done += chunk.size();
        if (progress && !progress(done, total)) return CancelledError("stopped");
      }
    }
  }
  return {};
}

Status CheckpointDirectory::Remove(uint64_t step, uint64_t attempt) {
  return RemoveTree(PathOf(step, attempt));
}

// Never the present attempt, which may be writing, and never a step at or above the newest
// committed one: its commit may still be on its way from another node.
Status CheckpointDirectory::RemoveUncommitted(uint64_t current_attempt) {
  ASSIGN_OR_RETURN(const std::vector<Manifest> committed, List());
  if (committed.empty()) return {};
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(path_));
  for (const std::string& name : names) {
    const std::optional<Name> parsed = ParseName(name);
    if (!parsed || parsed->step >= committed[0].step || parsed->attempt == current_attempt)
      continue;
    const bool is_committed =
        std::any_of(committed.begin(), committed.end(), [&](const Manifest& manifest) {
          return manifest.step == parsed->step && manifest.attempt == parsed->attempt;
        });
    if (!is_committed) RETURN_IF_ERROR(RemoveTree(path_ + "/" + name));
  }
  return {};
}

}  // namespace longhaul::checkpoint
