// A blocking connection between two agents, with a limit on every wait, and the requests that a
// node makes on it: sending a copy and fetching one.
//
// Threads: one at a time on a connection; BreakOff from any.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "checkpoint/peer/transfer.h"
#include "io/fd.h"

namespace longhaul::service {

// A rate limit for writes: so many bytes a second, with a burst of at most kBurst after a pause.
class Budget {
 public:
  static constexpr Duration kBurst = std::chrono::milliseconds(20);

  explicit Budget(uint64_t bytes_per_second)
      : bytes_per_second_(bytes_per_second) {}  // 0: no limit
  // Returns how long to wait before writing this many more bytes.
  Duration Use(size_t bytes, Instant now);

 private:
  uint64_t bytes_per_second_;
  Instant free_at_{};  // when the next write may begin
};

class PeerConnection {
 public:
  // Writes at most `bytes_per_second` (0: no limit).
  PeerConnection(io::Fd socket, uint64_t bytes_per_second);
  // Returns kUnavailable when no agent accepts the connection.
  static Result<PeerConnection> Connect(const std::string& address, uint16_t port,
                                        uint64_t bytes_per_second);
  // The same without a limit on the rate. All waits together, also later ones, end after `limit`
  // with kDeadlineExceeded.
  static Result<PeerConnection> ConnectWithin(const std::string& address, uint16_t port,
                                              Duration limit);

  // Ends all present and later waits on the connection. From any thread.
  void BreakOff();

  checkpoint::ReadBytes Reader();
  checkpoint::WriteBytes Writer();

 private:
  Status Await(short events) const;
  Status Read(std::span<std::byte> to);
  Status Write(std::span<const std::byte> bytes);

  io::Fd socket_;
  Budget budget_;
  std::optional<Instant> deadline_;
};

// Sends the snapshot of the step and attempt in `arena`, pinned meanwhile, and waits until the peer
// has sealed it.
Status SendCopy(PeerConnection& peer, const std::string& secret, const checkpoint::SnapshotKey& key,
                std::span<std::byte> arena);

// Requests a snapshot and returns the holder's announcement. With kFetch the data follows; with
// kDescribe nothing does. `copy`: requests a copy that the holder keeps for another node, not its
// own.
Result<checkpoint::PeerMessage> AskForCopy(PeerConnection& peer, const std::string& secret,
                                           const checkpoint::SnapshotKey& key, bool copy,
                                           checkpoint::PeerKind kind);

// Sends a probe with `bytes` bytes and receives `answer_bytes` bytes; compares them with the ones
// that follow from the seed.
Status Probe(PeerConnection& peer, const std::string& secret, uint64_t seed, uint64_t bytes,
             uint64_t answer_bytes);

// Requests these chunks of a snapshot. After OK, their bytes follow one after the other.
Status AskForChunks(PeerConnection& peer, const std::string& secret,
                    const checkpoint::SnapshotKey& key, bool copy,
                    const std::vector<checkpoint::ChunkId>& chunks);

}  // namespace longhaul::service
