// Snapshots sent between agents' memories: the messages, and one transfer of data.
//
//   sender                        keeper          wanting                         holder
//     | Offer(key, plan, hashes) -> |                | Fetch(key) ------------------> |
//     | <------ Ready | Refused     |                | <- Snapshot(key, plan, hashes) |
//     | data, tensor by tensor ---> |                | <- data    | Refused           |
//     | <------ Sealed | Refused    |
//
//   gathering                                     holder
//     | Describe(key, whose) ----------------------> |
//     | <---- Snapshot(key, plan, hashes) | Refused  |
//     | FetchChunks(key, whose, chunks) -----------> |   only those that hold what is needed
//     | <---------------- Ready, data | Refused      |
//
// A message is a frame: magic "LHP1", u32 kind, u64 payload bytes, u64 XXH3-64 of the payload with
// the kind as seed, then the payload. Data is all tensors' bytes in the plan's order without
// framing: every chunk has its hash in the message before, made when training stopped for the copy.
// A receiver believes nothing: what doesn't match is refused and never sealed. Leaves out
// encryption; every request carries the secret that the agents share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/arena.h"
#include "checkpoint/chunk_source.h"
#include "checkpoint/shard.h"
#include "checkpoint/state.h"

namespace longhaul::checkpoint {

constexpr size_t kPeerFrameBytes = 24;
constexpr uint64_t kMaxPeerPayload = 256 << 20;

// A rank's snapshot of a job. With attempt 0 in a Fetch: of any, the highest.
struct SnapshotKey {
  std::string job;  // at most 255 bytes
  uint32_t rank = 0;
  uint64_t step = 0;
  uint64_t attempt = 0;

  friend bool operator==(const SnapshotKey&, const SnapshotKey&) = default;
};
std::string ToString(const SnapshotKey& key);

enum class PeerKind : uint32_t {
  kOffer = 1,
  kFetch,
  kReady,
  kSnapshot,
  kSealed,
  kRefused,
  kDescribe,
  kFetchChunks
};

struct PeerMessage {
  PeerKind kind = PeerKind::kRefused;
  std::string secret;  // Offer, Fetch, Describe, FetchChunks
  SnapshotKey key;     // the same, and Snapshot
  bool copy = false;   // Fetch, Describe, FetchChunks: kept for another node, not the node's own
  StatePlan plan;      // Offer, Snapshot
  ChunkHashes chunks;  // Offer, Snapshot: as the plan has chunks
  std::vector<ChunkId> wanted;  // FetchChunks: at least one
  std::string reason;           // Refused

  friend bool operator==(const PeerMessage&, const PeerMessage&) = default;
};

// A frame with its payload. kResourceExhausted above the limit. Requires what the kind needs.
Result<std::string> EncodePeerMessage(const PeerMessage& message);

// From a frame's first kPeerFrameBytes: how long its payload is. kInvalidArgument when it is none.
Result<uint64_t> PeerPayloadBytes(std::span<const std::byte> frame);
// Accepts only what EncodePeerMessage writes.
Result<PeerMessage> ParsePeerMessage(std::span<const std::byte> frame,
                                     std::span<const std::byte> payload);

// Where bytes come from and go to; blocking, whole. Errors name the other end.
using ReadBytes = std::function<Status(std::span<std::byte>)>;
using WriteBytes = std::function<Status(std::span<const std::byte>)>;

Status SendPeerMessage(const PeerMessage& message, const WriteBytes& write);
Result<PeerMessage> ReceivePeerMessage(const ReadBytes& read);

// Sends the data of a pinned snapshot; each chunk is held against its hash first, so that damage in
// our own memory is named here (kDataLoss) and the transfer breaks off.
Status SendSnapshotData(const ArenaReader::Hashed& snapshot, const WriteBytes& write);

// Sends these chunks of a pinned snapshot, each held against its hash first. kInvalidArgument,
// before anything is sent, for one that the snapshot doesn't have.
Status CheckChunks(const ArenaReader::Hashed& snapshot, std::span<const ChunkId> chunks);
Status SendChunks(const ArenaReader::Hashed& snapshot, std::span<const ChunkId> chunks,
                  const WriteBytes& write);

// Receives the data that a message announced into a slot of `arena` and seals it there. kDataLoss
// naming the chunk that doesn't match; nothing is sealed then.
Status ReceiveSnapshotData(const PeerMessage& announced, const ReadBytes& read,
                           std::span<std::byte> arena);

}  // namespace longhaul::checkpoint
