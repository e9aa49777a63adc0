// Detects committed checkpoints that are removed by others while their run continues.
//
// For each folder it stores the checkpoints that existed after this agent's last commit. One that
// this agent has not removed, and that no longer exists, is missing. Leaves out changed bytes,
// which are detected when a checkpoint is read.
//
// Not thread-safe: only the disk worker's thread uses it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/directory.h"
#include "io/files/file.h"

namespace longhaul::service {

class CheckpointWatch {
 public:
  using Checkpoint = std::pair<uint64_t, uint64_t>;  // step, attempt

  // Requires that `files` outlives this.
  explicit CheckpointWatch(io::FileSystem& files) : files_(files) {}

  // Call after each commit and the pruning that follows it. A folder that can't be listed is not
  // watched until the next commit.
  void NoteCommitted(const std::string& folder);

  // Returns the stored checkpoints without a manifest, each one once. None when the disk can't
  // report whether a manifest exists.
  std::vector<Checkpoint> TakeMissing(const std::string& folder);

 private:
  io::FileSystem& files_;
  std::map<std::string, std::vector<Checkpoint>> committed_;  // by folder
};

}  // namespace longhaul::service
