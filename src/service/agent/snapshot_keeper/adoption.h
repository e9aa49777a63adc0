// How a new agent adopts arenas from the snapshot keeper: ends processes that still use them,
// verifies every byte of the sealed snapshots, and keeps the valid ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/arena.h"
#include "service/agent/snapshot_keeper/snapshot_keeper_link.h"

namespace longhaul::service {

struct AdoptedArena {
  KeptArena kept;
  uint64_t bytes = 0;                              // of the whole arena
  std::vector<checkpoint::SealedSnapshot> sealed;  // newest first; every byte agrees with its hash
};

struct Adoption {
  std::vector<AdoptedArena> adopted;  // in the order given
  std::vector<KeptArena> dropped;     // without a valid snapshot
  std::vector<std::string> notes;     // findings, for the log
};

// Empties sealed snapshots that fail their hashes, and drops arenas without a valid one. Uses at
// most `threads` threads. Requires that no process writes to the arenas (EndUsers).
Adoption Adopt(std::vector<KeptArena> kept, unsigned threads);

// Kills the processes of this user that have one of the arenas mapped or open: workers of the
// earlier agent that did not end with it. (One that has just started may have the arena open but
// not mapped.) Leaves out this process and `spared`. Returns a text for each ended process, or
// kDeadlineExceeded when one doesn't end.
Result<std::vector<std::string>> EndUsers(const std::vector<KeptArena>& kept, int64_t spared);

}  // namespace longhaul::service
