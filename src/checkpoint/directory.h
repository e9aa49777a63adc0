// A run's checkpoints on disk: one directory a step and attempt, committed by one rename.
//
//   checkpoints/step-000000040.e3/rank-00000-of-00004.safetensors   written and synced by an agent
//   checkpoints/step-000000040.e3/MANIFEST                          the commit point
//
// A checkpoint exists exactly when its manifest verifies and its files exist with the right sizes;
// everything else is garbage. A rank's file is a shard (shard.h). The attempt is part of the name,
// so a writer of an older attempt can't touch the files of a newer one. docs/checkpoint-format.md
// has the order of syncs, which is tested against every legal crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard.h"
#include "checkpoint/state.h"
#include "io/files/file.h"

namespace longhaul::checkpoint {

// A step's folder without a usable checkpoint, and why.
struct UnusableStep {
  uint64_t step = 0;
  uint64_t attempt = 0;
  std::string reason;
  bool complete = false;  // without a manifest, but with the files of all ranks
};

// The state of a run's step folders. Each list has the newest step first, and for a step the
// highest attempt first.
struct StepSurvey {
  std::vector<Manifest> committed;
  // With a manifest that does not verify, or whose files are missing or have other sizes. The
  // contents of files are not read.
  std::vector<UnusableStep> damaged;
  std::vector<UnusableStep> uncommitted;  // no manifest: being written, or left by a crash
};

class CheckpointDirectory {
 public:
  // `path` is created by the first write. Requires that `files` outlives this.
  CheckpointDirectory(io::FileSystem& files, std::string path);

  // "step-000000040.e3"
  static std::string NameOf(uint64_t step, uint64_t attempt);
  // Returns whether NameOf can return this name.
  static bool IsStepName(const std::string& name);

  // Writes one rank's tensors, durable when it returns. On failure (a full disk) it removes its
  // temporary file, and older checkpoints are unchanged. When this checkpoint is already committed,
  // returns its file in the manifest and writes nothing. Requires spans of the plan's sizes and
  // rank < world.
  Result<PieceFile> WritePiece(uint64_t step, uint64_t attempt, uint32_t rank, uint32_t world,
                               const StatePlan& plan,
                               std::span<const std::span<const std::byte>> tensors);

  // The same with known hashes from the arena: verifies every chunk as it is written. Returns
  // kDataLoss with the first mismatch. Requires as many hashes as HashTensors returns.
  Result<PieceFile> WriteHashedPiece(const ShardId& id, const StatePlan& plan,
                                     const ChunkHashes& hashes,
                                     std::span<const std::span<const std::byte>> tensors);

  // Copies a file of another directory's committed checkpoint here, durable when it returns, and
  // verifies every chunk. Keeps a file that already exists. `pace` is called before each read with
  // its size and may block; false stops the copy (kCancelled). On failure as WritePiece.
  using Pace = std::function<bool(uint64_t bytes)>;
  Status TakeShard(CheckpointDirectory& from, const Manifest& manifest, const PieceFile& file,
                   const Pace& pace = {});

  // Commits the shards as a checkpoint: after success it survives any crash. `order` has the names,
  // ranks, sizes and hashes of the files; the manifest's tensors and pieces come from the shards'
  // headers. Fails when a file is missing, has another size or header, or disagrees with another on
  // a tensor. Committing the same again succeeds.
  Status Commit(const Manifest& order);

  // Returns all steps by state. A missing directory has none; one that cannot be read is an error.
  Result<StepSurvey> Survey();

  // Returns only the committed steps of Survey.
  Result<std::vector<Manifest>> List();

  // Returns the manifest of a committed checkpoint; like List it doesn't read the files.
  Result<Manifest> Read(uint64_t step, uint64_t attempt);

  // Opens a rank's file and reads its header. Then ReadVerified reads parts of it, or all of it in
  // order. Errors as for ReadPiece.
  enum class Reading { kParts, kWhole };
  struct OpenedShard {
    std::string path;
    std::unique_ptr<io::ReadableFile> file;
    ShardHeader header;
  };
  Result<OpenedShard> OpenShard(const Manifest& manifest, const PieceFile& file,
                                Reading reading = Reading::kParts);

  // Returns one rank's tensors, with every byte verified against the manifest and the shard's own
  // hashes. Returns kNotFound when the step isn't committed, and kDataLoss with file and reason
  // when it is damaged.
  Result<LoadedState> ReadPiece(uint64_t step, uint64_t attempt, uint32_t rank);

  // Verifies every byte of a committed checkpoint. Returns kDataLoss with file and reason, or
  // kCancelled when `progress` returns false.
  Status Verify(const Manifest& manifest,
                const std::function<bool(uint64_t done, uint64_t total)>& progress = {});

  // Removes a checkpoint, committed or not. retention/retention.h decides which ones.
  Status Remove(uint64_t step, uint64_t attempt);

  // Removes the directories without a valid manifest that are below the newest committed step and
  // whose attempt isn't `current_attempt`.
  Status RemoveUncommitted(uint64_t current_attempt);

 private:
  std::string PathOf(uint64_t step, uint64_t attempt) const;
  Result<Manifest> ReadManifest(const std::string& directory);
  Result<std::optional<std::string>> MissingFile(const Manifest& manifest);
  Status RemoveTree(const std::string& directory);

  io::FileSystem& files_;
  std::string path_;
};

}  // namespace longhaul::checkpoint
