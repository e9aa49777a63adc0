// A run's checkpoints on disk: one directory a step and attempt, committed by one rename.
//
//   checkpoints/step-000000040.e3/rank-00000-of-00004.safetensors   written and synced by an agent
//   checkpoints/step-000000040.e3/MANIFEST                          the commit point
//
// A checkpoint is there exactly when its manifest verifies and its files exist with the right
// sizes; everything else is garbage. A rank's file is a shard (shard.h). The attempt is in the
// name, so a fenced writer can't touch a newer one's files. The order of syncs is in
// docs/checkpoint-format.md and is tested against every legal crash.
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

// A step's folder that holds no committed checkpoint, and why.
struct UnusableStep {
  uint64_t step = 0;
  uint64_t attempt = 0;
  std::string reason;
  bool complete = false;  // of one without a manifest: the files of all ranks are there
};

// What the folders of a run's steps hold, each list with the newest step first, of a step the
// highest attempt first.
struct StepSurvey {
  std::vector<Manifest> committed;
  // With a manifest that does not verify, or whose files are absent or of other sizes. The contents
  // of files are not looked at.
  std::vector<UnusableStep> damaged;
  std::vector<UnusableStep> uncommitted;  // no manifest: being written, or left by a crash
};

class CheckpointDirectory {
 public:
  // `path` is made when first written to. Requires that `files` outlives this.
  CheckpointDirectory(io::FileSystem& files, std::string path);

  // "step-000000040.e3"
  static std::string NameOf(uint64_t step, uint64_t attempt);
  // Whether NameOf gives this name.
  static bool IsStepName(const std::string& name);

  // Writes one rank's tensors, durable when it returns. On failure (a full disk) its temporary file
  // is gone and every older checkpoint is as it was. When this checkpoint is already committed,
  // returns what the manifest says and writes nothing. Requires spans of the plan's sizes and
  // rank < world.
  Result<PieceFile> WritePiece(uint64_t step, uint64_t attempt, uint32_t rank, uint32_t world,
                               const StatePlan& plan,
                               std::span<const std::span<const std::byte>> tensors);

  // The same with hashes that are known already, from the arena: every chunk is held against its
  // hash on its way out. kDataLoss naming the first that differs. Requires as many as HashTensors
  // gives.
  Result<PieceFile> WriteHashedPiece(const ShardId& id, const StatePlan& plan,
                                     const ChunkHashes& hashes,
                                     std::span<const std::span<const std::byte>> tensors);

  // Copies a file of another directory's committed checkpoint here, durable when it returns; every
  // chunk is held against its hash on its way. One that is there already is left. `pace` is called
  // before so many bytes are read and waits as long as it wants; false ends it (kCancelled). As
  // WritePiece on failure.
  using Pace = std::function<bool(uint64_t bytes)>;
  Status TakeShard(CheckpointDirectory& from, const Manifest& manifest, const PieceFile& file,
                   const Pace& pace = {});

  // Makes the shards a checkpoint: after success it survives any crash. `order` names the files by
  // name, rank, bytes and hash; the manifest's tensors and pieces come from the shards' headers.
  // Refuses when a file is absent, has another size or header, or disagrees with another on a
  // tensor. Committing the same again is fine.
  Status Commit(const Manifest& order);

  // All steps by their state. An absent directory holds none; one that cannot be read is an error.
  Result<StepSurvey> Survey();

  // The committed ones of Survey alone: for those who do not choose a step to continue from.
  Result<std::vector<Manifest>> List();

  // The manifest of a committed checkpoint; as List it doesn't look at the files.
  Result<Manifest> Read(uint64_t step, uint64_t attempt);

  // Opens a rank's file and reads its header: for reading parts of it by ReadVerified, or all of it
  // in order. As ReadPiece.
  enum class Reading { kParts, kWhole };
  struct OpenedShard {
    std::string path;
    std::unique_ptr<io::ReadableFile> file;
    ShardHeader header;
  };
  Result<OpenedShard> OpenShard(const Manifest& manifest, const PieceFile& file,
                                Reading reading = Reading::kParts);

  // One rank's tensors, every byte verified against the manifest and the shard's own hashes.
  // kNotFound when that isn't committed, kDataLoss naming file and reason when it is damaged.
  Result<LoadedState> ReadPiece(uint64_t step, uint64_t attempt, uint32_t rank);

  // Reads every byte of a committed checkpoint and holds it against its hash. kDataLoss naming file
  // and reason; kCancelled when `progress` returns false.
  Status Verify(const Manifest& manifest,
                const std::function<bool(uint64_t done, uint64_t total)>& progress = {});

  // Removes a checkpoint, committed or not. Which may go is retention's question
  // (retention/retention.h).
  Status Remove(uint64_t step, uint64_t attempt);

  // Removes the directories without a sound manifest that are below the newest committed step and
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
