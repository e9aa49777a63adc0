// Reports when somebody else removes a run's committed checkpoints while the run continues.
//
// Remembers, for each folder, the checkpoints that stood there after this agent's last commit. What
// has gone since without this agent's doing is missing. Leaves out changed bytes: they are found
// when a checkpoint is read.
//
// Not thread-safe: for one thread, the disk worker's.
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

  // To be called after each commit and what it has pruned. A folder that can't be listed is not
  // watched until the next commit.
  void NoteCommitted(const std::string& folder);

  // The remembered checkpoints whose manifest is no longer there; each is returned once. None when
  // the disk can't say whether it is there.
  std::vector<Checkpoint> TakeMissing(const std::string& folder);

 private:
  io::FileSystem& files_;
  std::map<std::string, std::vector<Checkpoint>> committed_;  // by folder
};

}  // namespace longhaul::service
