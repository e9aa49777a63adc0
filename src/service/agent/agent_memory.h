// All memory for snapshots that one agent holds: its own ranks' arenas, copies for other nodes, and
// the snapshot keeper that keeps both when the agent is killed.
//
// A new agent adopts what it finds in the snapshot keeper: processes that still use an arena are
// ended, every sealed byte is held against its hash, and what is good is told to the controller,
// which alone knows whether it belongs to a state that somebody wants. Without a snapshot keeper
// the memory ends with the agent.
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
  std::string directory;  // where the snapshot keeper's socket lies
  std::vector<std::string>
      snapshot_keeper;       // the program and its arguments; none: no snapshot keeper
  uint64_t arena_limit = 0;  // bytes, all own arenas together
  uint64_t copy_limit = 0;   // all copies for others
};

// Threads: as its parts; the rest on the loop's.
class AgentMemory {
 public:
  // What goes wrong with the snapshot keeper or in it is told on stderr: an agent without adopted
  // memory is still an agent.
  explicit AgentMemory(const AgentMemoryOptions& options);
  AgentMemory(const AgentMemory&) = delete;
  AgentMemory& operator=(const AgentMemory&) = delete;

  // The rank's arena, as ArenaKeeper::Provide and Install; shown to peers, kept by the snapshot
  // keeper.
  Result<std::shared_ptr<const io::SharedMemory>> Provide(const JobId& job, uint32_t rank,
                                                          uint64_t bytes);
  Status Install(const JobId& job, uint32_t rank, std::shared_ptr<const io::SharedMemory> arena,
                 uint64_t bytes);
  std::shared_ptr<const io::SharedMemory> Find(const JobId& job, uint32_t rank) const {
    return arenas_.Find(job, rank);
  }
  void Drop(const JobId& job);

  PeerMemory& copies() { return copies_; }
  // What was adopted, for AgentFacts.
  const std::vector<runtime::AgentFacts::HeldSnapshot>& held() const { return held_; }

  // The agent ends in order: nothing has to be kept.
  void End();
  // Chaos: the snapshot keeper is killed.
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
