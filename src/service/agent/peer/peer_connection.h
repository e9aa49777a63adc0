// A connection between two agents, blocking with a limit on every wait, and the two conversations
// that a node begins on it: sending a copy and fetching one.
//
// Threads: one at a time on a connection; BreakOff from any.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "checkpoint/peer/transfer.h"
#include "io/fd.h"

namespace longhaul::service {

// How much may be written when: so many bytes a second, of which kBurst's worth may come at once
// after a pause.
class Budget {
 public:
  static constexpr Duration kBurst = std::chrono::milliseconds(20);

  explicit Budget(uint64_t bytes_per_second)
      : bytes_per_second_(bytes_per_second) {}  // 0: no limit
  // How long to wait before writing so many bytes more.
  Duration Use(size_t bytes, Instant now);

 private:
  uint64_t bytes_per_second_;
  Instant free_at_{};  // when the next write may begin
};

class PeerConnection {
 public:
  // Writes take at most `bytes_per_second` (0: as fast as it goes).
  PeerConnection(io::Fd socket, uint64_t bytes_per_second);
  // kUnavailable when there is nobody.
  static Result<PeerConnection> Connect(const std::string& address, uint16_t port,
                                        uint64_t bytes_per_second);

  // Ends all waits on it, now and from now on. From any thread.
  void BreakOff();

  checkpoint::ReadBytes Reader();
  checkpoint::WriteBytes Writer();

 private:
  Status Read(std::span<std::byte> to);
  Status Write(std::span<const std::byte> bytes);

  io::Fd socket_;
  Budget budget_;
};

// Sends the snapshot of that step and attempt in `arena`, pinned meanwhile, and waits for its seal.
Status SendCopy(PeerConnection& peer, const std::string& secret, const checkpoint::SnapshotKey& key,
                std::span<std::byte> arena);

// What a holder has announced; with kFetch its data is still to be received, with kDescribe that is
// all. `copy`: what it keeps for another node, not its own.
Result<checkpoint::PeerMessage> AskForCopy(PeerConnection& peer, const std::string& secret,
                                           const checkpoint::SnapshotKey& key, bool copy,
                                           checkpoint::PeerKind kind);

// Asks for these chunks of a snapshot; once it is fine their bytes come one after the other.
Status AskForChunks(PeerConnection& peer, const std::string& secret,
                    const checkpoint::SnapshotKey& key, bool copy,
                    const std::vector<checkpoint::ChunkId>& chunks);

}  // namespace longhaul::service
