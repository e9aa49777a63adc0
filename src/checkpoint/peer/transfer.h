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
//   testing                                        any agent
//     | Probe(seed, contents) ---------------------> |   the test of a connection, without
//     snapshots | <------------- ProbeAnswer(contents) | Refused|
//
// A message is a frame: magic "LHP1", u32 kind, u64 payload bytes, u64 XXH3-64 of the payload with
// the kind as seed, then the payload. Data is all tensors' bytes in the plan's order without
// framing. Each chunk's hash, made at the snapshot, is in the message before the data. The receiver
// trusts nothing: data that doesn't match is refused and never sealed. Leaves out encryption; every
// request carries the secret that the agents share.
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
constexpr uint64_t kMaxProbeBytes = 16 << 20;

// A rank's snapshot of a job. Attempt 0 in a Fetch means the highest one.
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
  kFetchChunks,
  kProbe,
  kProbeAnswer
};

struct PeerMessage {
  PeerKind kind = PeerKind::kRefused;
  std::string secret;           // Offer, Fetch, Describe, FetchChunks, Probe
  SnapshotKey key;              // those, and Snapshot
  bool copy = false;            // Fetch, Describe, FetchChunks: a copy kept for another node
  StatePlan plan;               // Offer, Snapshot
  ChunkHashes chunks;           // Offer, Snapshot: as the plan has chunks
  std::vector<ChunkId> wanted;  // FetchChunks: at least one
  std::string reason;           // Refused
  uint64_t seed = 0;            // Probe: of the contents, ProbeContents(seed, ...)
  uint64_t answer_bytes = 0;    // Probe: of the answer's contents, at most kMaxProbeBytes
  std::string contents;         // Probe, ProbeAnswer: at most kMaxProbeBytes

  friend bool operator==(const PeerMessage&, const PeerMessage&) = default;
};

// Returns a frame with its payload; kResourceExhausted above the limit. Requires the fields of the
// kind.
Result<std::string> EncodePeerMessage(const PeerMessage& message);

// Returns the payload's length from a frame's first kPeerFrameBytes; kInvalidArgument when it is no
// frame.
Result<uint64_t> PeerPayloadBytes(std::span<const std::byte> frame);
// Accepts only what EncodePeerMessage writes.
Result<PeerMessage> ParsePeerMessage(std::span<const std::byte> frame,
                                     std::span<const std::byte> payload);

// Returns the contents of a probe: random bytes that follow from the seed. Those of the answer to a
// probe follow from ~seed.
std::string ProbeContents(uint64_t seed, uint64_t bytes);

// Transfer all of the given bytes; they block. Errors name the other end.
using ReadBytes = std::function<Status(std::span<std::byte>)>;
using WriteBytes = std::function<Status(std::span<const std::byte>)>;

Status SendPeerMessage(const PeerMessage& message, const WriteBytes& write);
Result<PeerMessage> ReceivePeerMessage(const ReadBytes& read);

// Sends the data of a pinned snapshot. Each chunk is verified first, so that damage in this node's
// own memory is reported here (kDataLoss), and the transfer ends.
Status SendSnapshotData(const ArenaReader::Hashed& snapshot, const WriteBytes& write);

// Sends these chunks of a pinned snapshot, each verified first. Returns kInvalidArgument, before
// anything is sent, for a chunk that the snapshot doesn't have.
Status CheckChunks(const ArenaReader::Hashed& snapshot, std::span<const ChunkId> chunks);
Status SendChunks(const ArenaReader::Hashed& snapshot, std::span<const ChunkId> chunks,
                  const WriteBytes& write);

// Receives the announced data into a slot of `arena` and seals it. Returns kDataLoss with the chunk
// that doesn't match; nothing is sealed then.
Status ReceiveSnapshotData(const PeerMessage& announced, const ReadBytes& read,
                           std::span<std::byte> arena);

}  // namespace longhaul::checkpoint
