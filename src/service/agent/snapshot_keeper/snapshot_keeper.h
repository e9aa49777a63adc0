// The snapshot keeper: a process beside a node's agent that only holds the descriptors of its
// arenas, so that snapshots in memory outlive the agent.
//
// The agent adds each arena when it creates it. If the agent is killed, the snapshot keeper keeps
// the arenas, and the next agent receives them all after its Hello. If the agent ends in order, it
// sends kEnd, and the snapshot keeper ends too. It also ends when no agent connects for a while, so
// that memory isn't held forever. It never maps or reads an arena. One agent at a time: a second
// one is refused. docs/arena.md lists which processes may be killed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "base/status.h"
#include "base/time.h"
#include "io/fd.h"
#include "service/agent/snapshot_keeper/snapshot_keeper_message.h"

namespace longhaul::service {

// The process's name in /proc/PID/comm.
inline constexpr char kSnapshotKeeperSocketName[] = "snapshot-keeper.sock";
constexpr char kSnapshotKeeperProcessName[] = "longhaul-keeper";

// The listening socket that a keeper inherits from the agent that starts it.
inline constexpr int kSnapshotKeeperListenerFd = 3;

class SnapshotKeeper {
 public:
  static constexpr size_t kMaxArenas = 8192;

  // Serves the agents that connect to `listener` (SOCK_SEQPACKET). Accepts only processes of the
  // same user.
  explicit SnapshotKeeper(io::Fd listener) : listener_(std::move(listener)) {}

  // Returns when an agent ends it, or when no agent is connected for `hold`.
  Status Run(Duration hold);

 private:
  using Key = std::tuple<std::string, uint32_t, bool>;  // job, rank, copy

  void Accept();
  // Returns whether the snapshot keeper continues.
  bool Read();
  bool Take(const SnapshotKeeperMessage& message, io::Fd fd);
  Status Greet(const std::string& node);

  io::Fd listener_;
  io::Fd agent_;  // the one connection
  bool greeted_ = false;
  std::string node_;  // of the first agent that connected
  std::map<Key, io::Fd> arenas_;
};

// `longhaul snapshot-keeper`: serves the listening socket that it inherits as descriptor 3, and
// removes its name from the working directory at the end. Returns the process's exit code.
int SnapshotKeeperMain(Duration hold);

}  // namespace longhaul::service
