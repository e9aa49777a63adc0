// Which checkpoints of a run stay: the last N, every K steps, the best M; and a collection that
// reads what it keeps before it removes anything else.
//
// The newest is always kept. A good checkpoint is one whose every byte agrees with its hash. What
// is to stay is read, newest first, until a good one is found; when none is, what was to go is read
// too, and the newest good one of it stays. Only then is anything removed, and nothing is when no
// good one was found at all. So after a collection a good checkpoint is left if there was one.
// Leaves out: what is removed between the read and the next one by somebody else, and bits that
// flip after they were read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/directory.h"
#include "checkpoint/manifest.h"

namespace longhaul::checkpoint {

struct RetentionPolicy {
  uint64_t last = 3;                 // at least 1
  uint64_t every = 0;                // steps that it divides; 0: none
  uint64_t best = 0;                 // of the lowest validation loss; those without one don't count
  std::vector<uint64_t> steps = {};  // these too: what is being restored from
  // This step's was written and verified just now, so it is good without being read again.
  uint64_t vouched = 0;
};

// Whether each of these stays. Requires them newest first, as CheckpointDirectory::List gives them.
std::vector<bool> Stays(const RetentionPolicy& policy, const std::vector<Manifest>& checkpoints);

struct Collection {
  std::vector<Manifest> kept;     // newest first
  std::vector<Manifest> removed;  // or to be removed
  std::string good;               // the name of the one that was read and found good; may be empty
  std::vector<std::string> said;  // damage that was found, and what stays because of it
};

// Called while a checkpoint is read; false stops (kCancelled, nothing is removed).
using CollectProgress = std::function<bool(uint64_t done, uint64_t total)>;

// Decides, reading as much as it must. Nothing is read when nothing is to go.
Result<Collection> PlanCollection(CheckpointDirectory& directory, const RetentionPolicy& policy,
                                  const CollectProgress& progress = {});

// The same, and removes what is to go, oldest first; also the remains of uncommitted checkpoints
// below the newest whose attempt isn't `current_attempt`, once a good one was found.
Result<Collection> Collect(CheckpointDirectory& directory, const RetentionPolicy& policy,
                           uint64_t current_attempt, const CollectProgress& progress = {});

// Removes what a plan says. For who has asked a person in between.
Status RemovePlanned(CheckpointDirectory& directory, const Collection& plan);

}  // namespace longhaul::checkpoint
