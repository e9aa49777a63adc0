// What a new agent does with the arenas that an earlier one left in the snapshot keeper: ends who
// still uses them, reads every byte of what is sealed, and keeps what is good.
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
  std::vector<KeptArena> dropped;     // hold nothing that is good
  std::vector<std::string> said;      // what was found, for the log
};

// Sealed snapshots that fail their hashes are emptied; an arena that holds no good one is dropped.
// Uses at most `threads` threads. Requires that nobody writes to the arenas (EndUsers).
Adoption Adopt(std::vector<KeptArena> kept, unsigned threads);

// Kills the processes of our user that have one of the arenas mapped or open, except this process
// and `spared`: workers of the previous agent that did not end with it. One that has only just
// started has the arena open and not mapped yet. Returns what it ended, in words. kDeadlineExceeded
// when one doesn't end.
Result<std::vector<std::string>> EndUsers(const std::vector<KeptArena>& kept, int64_t spared);

}  // namespace longhaul::service
