// The snapshot keeper: a process beside a node's agent that holds the descriptors of its arenas and
// does nothing else, so that snapshots in memory outlive the agent.
//
// The agent puts each arena in as it makes it. When the agent is killed, the snapshot keeper keeps
// them for the next one, which takes them all with its Hello; when the agent ends in order it says
// so, and the snapshot keeper ends too. So does one to which nobody comes for a while: memory isn't
// held forever. It never maps an arena and never looks into one. One agent at a time; a second is
// refused. docs/arena.md says who may be killed.
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

// How the process is called in /proc/PID/comm.
inline constexpr char kSnapshotKeeperProcessName[] = "longhaul-keeper";

class SnapshotKeeper {
 public:
  static constexpr size_t kMaxArenas = 8192;

  // Serves the agents that come to `listener` (SOCK_SEQPACKET). Only processes of our own user are
  // let in.
  explicit SnapshotKeeper(io::Fd listener) : listener_(std::move(listener)) {}

  // Until an agent ends it, or nobody is connected for `hold`.
  Status Run(Duration hold);

 private:
  using Key = std::tuple<std::string, uint32_t, bool>;  // job, rank, copy

  void Accept();
  // Whether the snapshot keeper continues.
  bool Read();
  bool Take(const SnapshotKeeperMessage& message, io::Fd fd);
  Status Greet(const std::string& node);

  io::Fd listener_;
  io::Fd agent_;  // the one connection
  bool greeted_ = false;
  std::string node_;  // of the first agent that came
  std::map<Key, io::Fd> arenas_;
};

// `longhaul snapshot-keeper`: serves the listening socket that it was started with as descriptor 3.
// Returns the process's exit code.
int SnapshotKeeperMain(Duration hold);

}  // namespace longhaul::service
