// The agent's end of its vault (vault.h).
//
// Threads: Put, DropJob and DropOne from any; the rest from one.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/fd.h"
#include "service/agent/vault/vault_message.h"

namespace longhaul::service {

// An arena as the vault has it.
struct KeptArena {
  std::string job;
  uint32_t rank = 0;
  bool copy = false;  // of another node's snapshots
  std::shared_ptr<const io::Fd> arena;
};

class VaultLink {
 public:
  struct Opened {
    std::unique_ptr<VaultLink> link;
    std::vector<KeptArena> kept;  // that an earlier agent left
  };
  // Comes to the vault whose socket lies in `directory`, or starts one there by `command`.
  // kFailedPrecondition when the arenas are another node's, kUnavailable when another agent has
  // them.
  static Result<Opened> Open(const std::string& directory, const std::vector<std::string>& command,
                             const std::string& node);

  // A vault that has gone is told once, on stderr; snapshots don't outlive the agent then.
  void Put(const std::string& job, uint32_t rank, bool copy, const io::Fd& arena);
  void DropJob(const std::string& job);
  void DropOne(const std::string& job, uint32_t rank, bool copy);

  // Nothing has to be kept any more.
  void End();
  // Chaos: the memory of the node is lost.
  void Kill();

  int64_t process() const { return process_; }

 private:
  VaultLink(io::Fd socket, int64_t process, io::Fd pidfd);
  void Say(const VaultMessage& message, const io::Fd* arena = nullptr);

  io::Fd socket_;
  const int64_t process_;
  io::Fd pidfd_;
  std::mutex mutex_;  // guards the socket and the next one
  bool gone_ = false;
};

}  // namespace longhaul::service
