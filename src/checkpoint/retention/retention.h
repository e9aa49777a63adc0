// Which checkpoints of a run are kept (the last N, every K steps, the best M), and the removal of
// the others after a check of the kept ones.
//
// The newest is always kept. A checkpoint is good if every byte agrees with its hash. The
// collection verifies the kept ones, newest first, until one is good. If none is, it verifies the
// others too and keeps the newest good one of them. Then it removes the rest, but nothing when no
// good one was found. So if there was a good checkpoint, one is left. Leaves out checkpoints that
// others remove during the collection, and bits that flip after they were read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/directory.h"
#include "checkpoint/manifest.h"

namespace longhaul::checkpoint {

// Where the run's present attempt began: from the state after `step`.
struct AttemptBegin {
  uint64_t attempt = 0;
  uint64_t step = 0;
};

struct RetentionPolicy {
  uint64_t last = 3;                 // at least 1
  uint64_t every = 0;                // multiples of this; 0: none
  uint64_t best = 0;                 // of the lowest validation loss; only those with one
  std::vector<uint64_t> steps = {};  // kept too: the one being restored from
  // The checkpoint of this step was just written and verified, so it is good without another read.
  uint64_t vouched = 0;
  // Checkpoints that earlier attempts have saved above its step are of a history that the run has
  // left. They count as older than all others.
  std::optional<AttemptBegin> begin = {};
};

// Returns whether each of these is kept. Requires them newest first.
std::vector<bool> Stays(const RetentionPolicy& policy, const std::vector<Manifest>& checkpoints);

struct Collection {
  std::vector<Manifest> kept;      // newest first
  std::vector<Manifest> removed;   // or to be removed
  std::string good;                // the name of the one that was verified; may be empty
  std::vector<std::string> notes;  // damage, and which checkpoints are kept because of it
};

// Called while a checkpoint is read; false stops (kCancelled, nothing is removed).
using CollectProgress = std::function<bool(uint64_t done, uint64_t total)>;

// Decides what to keep, with as few reads as possible. Reads nothing when nothing would be removed.
Result<Collection> PlanCollection(CheckpointDirectory& directory, const RetentionPolicy& policy,
                                  const CollectProgress& progress = {});

// The same, then removes the others, oldest first. Once a good one was found, also removes
// uncommitted checkpoints below the newest whose attempt isn't `current_attempt`.
Result<Collection> Collect(CheckpointDirectory& directory, const RetentionPolicy& policy,
                           uint64_t current_attempt, const CollectProgress& progress = {});

// Removes what a plan lists, for callers that request a confirmation first.
Status RemovePlanned(CheckpointDirectory& directory, const Collection& plan);

}  // namespace longhaul::checkpoint
