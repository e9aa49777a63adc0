// The agent's end of its snapshot keeper (snapshot_keeper.h).
//
// If a snapshot keeper ends unexpectedly, a thread of this class starts a new one and gives it all
// arenas again. Only until then does the memory depend on the agent.
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

// An arena in the snapshot keeper.
struct KeptArena {
  std::string job;
  uint32_t rank = 0;
  bool copy = false;  // a copy of another node's snapshots
  std::shared_ptr<const io::SharedMemory> arena;
};

class SnapshotKeeperLink {
 public:
  struct Opened {
    std::unique_ptr<SnapshotKeeperLink> link;
    std::vector<KeptArena> kept;  // left by an earlier agent
  };
  // Connects to the snapshot keeper whose socket is in `directory`, or starts one there with
  // `command`. Returns kFailedPrecondition when the arenas are another node's, and kUnavailable
  // when another agent is connected.
  static Result<Opened> Open(const std::string& directory, const std::vector<std::string>& command,
                             const std::string& node);

  ~SnapshotKeeperLink();

  void Put(const std::string& job, uint32_t rank, bool copy,
           std::shared_ptr<const io::SharedMemory> arena);
  void DropJob(const std::string& job);
  void DropOne(const std::string& job, uint32_t rank, bool copy);

  // Nothing need be kept any more: ends the snapshot keeper, and waits at most 2 s for its end.
  void End();
  // Injected fault: the memory of the node is lost.
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
  // Connects to the existing snapshot keeper or a new one, and exchanges Hello and Welcome.
  static Result<SnapshotKeeper> Join(const std::string& directory,
                                     const std::vector<std::string>& command,
                                     const std::string& node);

  SnapshotKeeperLink(std::string directory, std::vector<std::string> command, std::string node,
                     SnapshotKeeper snapshot_keeper);
  // Requires the lock.
  void Send(const SnapshotKeeperMessage& message, const io::Fd* arena = nullptr);
  // Replaces a snapshot keeper that has ended, until the link ends.
  void Watch();
  Status Renew();
  // Returns false when the link ends.
  bool Pause(Duration time) const;

  const std::string directory_;
  const std::vector<std::string> command_;
  const std::string node_;
  mutable std::mutex mutex_;        // guards what follows
  SnapshotKeeper snapshot_keeper_;  // without a socket while there is none
  std::map<Key, std::shared_ptr<const io::SharedMemory>> held_;
  bool ending_ = false;  // the snapshot keeper's end is expected
  io::Fd stop_;          // readable once the watch must end
  std::thread watch_;
};

}  // namespace longhaul::service
