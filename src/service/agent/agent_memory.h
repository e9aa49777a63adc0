// All snapshot memory of one agent: the arenas of its own ranks, the copies for other nodes, and
// the snapshot keeper, which keeps both when the agent is killed.
//
// A new agent adopts the arenas in the snapshot keeper. It ends processes that still use an arena,
// verifies every sealed byte against its hash, and reports the valid snapshots to the controller,
// which decides whether they belong to a state that is needed. Without a snapshot keeper the memory
// ends with the agent.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "io/memory/shared_memory.h"
#include "runtime/agent/agent_core.h"
#include "service/agent/arena_keeper.h"
#include "service/agent/peer/peer_memory.h"
#include "service/agent/snapshot_keeper/adoption.h"
#include "service/agent/snapshot_keeper/snapshot_keeper_link.h"

namespace longhaul::service {

struct AgentMemoryOptions {
  std::string node;
  std::string directory;  // of the snapshot keeper's socket
  std::vector<std::string>
      snapshot_keeper;       // the program and its arguments; none: no snapshot keeper
  uint64_t arena_limit = 0;  // bytes of all own arenas together
  uint64_t copy_limit = 0;   // bytes of all copies for other nodes
};

// Threads: as its parts; the other methods on the loop's.
class AgentMemory {
 public:
  // Failures of the snapshot keeper are logged on stderr and are not errors: an agent works without
  // adopted memory.
  explicit AgentMemory(const AgentMemoryOptions& options);
  AgentMemory(const AgentMemory&) = delete;
  AgentMemory& operator=(const AgentMemory&) = delete;

  // Returns the rank's arena, as ArenaKeeper::Provide and Install do. Peers can read it, and the
  // snapshot keeper keeps it.
  Result<std::shared_ptr<const io::SharedMemory>> Provide(const JobId& job, uint32_t rank,
                                                          uint64_t bytes);
  Status Install(const JobId& job, uint32_t rank, std::shared_ptr<const io::SharedMemory> arena,
                 uint64_t bytes);
  std::shared_ptr<const io::SharedMemory> Find(const JobId& job, uint32_t rank) const {
    return arenas_.Find(job, rank);
  }
  void Drop(const JobId& job);

  PeerMemory& copies() { return copies_; }
  // Returns the adopted snapshots, for AgentFacts.
  const std::vector<runtime::AgentFacts::HeldSnapshot>& held() const { return held_; }

  // The agent ends in order: the snapshot keeper need not keep anything.
  void End();
  // Injected fault: kills the snapshot keeper.
  void Lose();

 private:
  void AdoptAll(std::vector<KeptArena> kept);
  Status TakeOne(const AdoptedArena& adopted);
  void Share(const JobId& job, uint32_t rank, const std::shared_ptr<const io::SharedMemory>& arena);
  void Inform(const std::string& what) const;
  void Warn(const std::string& what) const;

  const std::string node_;
  std::unique_ptr<SnapshotKeeperLink> snapshot_keeper_;  // null: memory ends with the agent
  ArenaKeeper arenas_;
  PeerMemory copies_;
  std::vector<runtime::AgentFacts::HeldSnapshot> held_;
};

}  // namespace longhaul::service
