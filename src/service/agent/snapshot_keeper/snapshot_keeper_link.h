// The agent's end of its snapshot keeper (snapshot_keeper.h).
//
// A snapshot keeper that ends before it was told to is replaced, on a thread of this, and the new
// one is given all arenas again: for that moment alone memory depends on the agent.
//
// Threads: Put, DropJob and DropOne from any; the rest from one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "io/fd.h"
#include "io/memory/shared_memory.h"
#include "service/agent/snapshot_keeper/snapshot_keeper_message.h"

namespace longhaul::service {

// An arena as the snapshot keeper has it.
struct KeptArena {
  std::string job;
  uint32_t rank = 0;
  bool copy = false;  // of another node's snapshots
  std::shared_ptr<const io::SharedMemory> arena;
};

class SnapshotKeeperLink {
 public:
  struct Opened {
    std::unique_ptr<SnapshotKeeperLink> link;
    std::vector<KeptArena> kept;  // that an earlier agent left
  };
  // Comes to the snapshot keeper whose socket lies in `directory`, or starts one there by
  // `command`. kFailedPrecondition when the arenas are another node's, kUnavailable when another
  // agent has them.
  static Result<Opened> Open(const std::string& directory, const std::vector<std::string>& command,
                             const std::string& node);

  ~SnapshotKeeperLink();

  void Put(const std::string& job, uint32_t rank, bool copy,
           std::shared_ptr<const io::SharedMemory> arena);
  void DropJob(const std::string& job);
  void DropOne(const std::string& job, uint32_t rank, bool copy);

  // Nothing has to be kept any more.
  void End();
  // Chaos: the memory of the node is lost.
  void Kill();

  int64_t process() const;  // of the present snapshot keeper

 private:
  using Key = std::tuple<std::string, uint32_t, bool>;  // job, rank, copy
  struct SnapshotKeeper {
    io::Fd socket;
    int64_t process = 0;
    io::Fd pidfd;
    std::vector<KeptArena> kept;
  };
  // The snapshot keeper that is there, or a new one, after its greeting.
  static Result<SnapshotKeeper> Join(const std::string& directory,
                                     const std::vector<std::string>& command,
                                     const std::string& node);

  SnapshotKeeperLink(std::string directory, std::vector<std::string> command, std::string node,
                     SnapshotKeeper snapshot_keeper);
  // Requires the lock.
  void Say(const SnapshotKeeperMessage& message, const io::Fd* arena = nullptr);
  // Replaces a snapshot keeper that has gone, until the end.
  void Watch();
  Status Renew();
  // False at the end.
  bool Pause(Duration time) const;

  const std::string directory_;
  const std::vector<std::string> command_;
  const std::string node_;
  mutable std::mutex mutex_;        // guards what follows
  SnapshotKeeper snapshot_keeper_;  // its socket is closed while there is none
  std::map<Key, std::shared_ptr<const io::SharedMemory>> held_;
  bool ending_ = false;  // its end is no surprise
  io::Fd stop_;          // readable once the watch is to end
  std::thread watch_;
};

}  // namespace longhaul::service
