#include "checkpoint/peer/transfer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"
#include "checkpoint/copy.h"
#include "checkpoint/internal/byte_fields.h"

namespace longhaul::checkpoint {
namespace {

using internal::FieldReader;
using internal::PutField;

constexpr char kMagic[4] = {'L', 'H', 'P', '1'};
constexpr size_t kMaxText = 4096;
constexpr size_t kMaxJobBytes = 255;

void PutText(std::string& out, std::string_view text) {
  PutField(out, static_cast<uint32_t>(text.size()));
  out += text;
}

// A text that PutText wrote, of at most `limit` bytes.
std::string TakeText(FieldReader& reader, size_t limit) {
  const size_t bytes = reader.Take<uint32_t>();
  if (bytes > limit) reader.Fail();
  return std::string(reader.TakeBytes(reader.ok() ? bytes : 0));
}

// Whose memory: the node's own, or what it keeps for others.
bool HasWhose(PeerKind kind) {
  return kind == PeerKind::kFetch || kind == PeerKind::kDescribe || kind == PeerKind::kFetchChunks;
}
bool HasRequest(PeerKind kind) { return kind == PeerKind::kOffer || HasWhose(kind); }
bool HasSecret(PeerKind kind) { return HasRequest(kind) || kind == PeerKind::kProbe; }
bool HasContents(PeerKind kind) {
  return kind == PeerKind::kProbe || kind == PeerKind::kProbeAnswer;
}
bool HasPlan(PeerKind kind) { return kind == PeerKind::kOffer || kind == PeerKind::kSnapshot; }

void PutSnapshot(std::string& out, const PeerMessage& message) {
  PutText(out, message.plan.Encode());
  CHECK(message.chunks.size() == message.plan.size());
  for (size_t i = 0; i < message.plan.size(); ++i) {
    CHECK(message.chunks[i].size() == ChunksIn(message.plan.bytes(i)));
    for (const uint64_t hash : message.chunks[i]) PutField(out, hash);
  }
}

// A plan of another agent is untrusted input: StatePlan::Decode limits its size, and the hashes
// have to be as many as the plan has chunks.
Status TakeSnapshot(FieldReader& reader, PeerMessage& message) {
  const std::string encoded = TakeText(reader, kMaxPeerPayload);
  if (!reader.ok()) return InvalidArgument("the plan is cut short");
  ASSIGN_OR_RETURN(message.plan, StatePlan::Decode(encoded));
  for (size_t i = 0; i < message.plan.size(); ++i) {
    const uint64_t chunks = ChunksIn(message.plan.bytes(i));
    // A chunk's hash takes eight bytes: no plan can make us allocate what isn't there.
    const std::string_view hashes = reader.TakeBytes(chunks * sizeof(uint64_t));
    if (!reader.ok()) return InvalidArgument("there is not a hash for each chunk");
    std::vector<uint64_t>& into = message.chunks.emplace_back(chunks);
    if (chunks > 0) std::memcpy(into.data(), hashes.data(), hashes.size());
  }
  return {};
}

void PutWanted(std::string& out, const PeerMessage& message) {
  CHECK(!message.wanted.empty());
  PutField(out, uint64_t{message.wanted.size()});
  for (const ChunkId& chunk : message.wanted) {
    PutField(out, chunk.tensor);
    PutField(out, chunk.chunk);
  }
}

void TakeWanted(FieldReader& reader, PeerMessage& message) {
  const auto chunks = reader.Take<uint64_t>();
  constexpr size_t kEach = 2 * sizeof(uint32_t);
  // As many as there are bytes for: a number alone makes us allocate nothing.
  if (chunks == 0 || chunks > reader.left() / kEach) return reader.Fail();
  message.wanted.resize(chunks);
  for (ChunkId& chunk : message.wanted) {
    chunk.tensor = reader.Take<uint32_t>();
    chunk.chunk = reader.Take<uint32_t>();
  }
}

void PutProbe(std::string& out, const PeerMessage& message) {
  CHECK(message.contents.size() <= kMaxProbeBytes && message.answer_bytes <= kMaxProbeBytes);
  if (message.kind == PeerKind::kProbe) {
    PutField(out, message.seed);
    PutField(out, message.answer_bytes);
  }
  out += message.contents;
}

void TakeProbe(FieldReader& reader, PeerMessage& message) {
  if (message.kind == PeerKind::kProbe) {
    message.seed = reader.Take<uint64_t>();
    message.answer_bytes = reader.Take<uint64_t>();
  }
  if (message.answer_bytes > kMaxProbeBytes || reader.left() > kMaxProbeBytes) return reader.Fail();
  message.contents = std::string(reader.TakeBytes(reader.left()));
}

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Frame {
  uint32_t kind = 0;
  uint64_t payload_bytes = 0;
  uint64_t hash = 0;
};

// Kind and length are checked here, before a payload is read. Its hash can be checked only with the
// payload.
Result<Frame> ParseFrame(std::span<const std::byte> bytes) {
  if (bytes.size() != kPeerFrameBytes || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0) {
    return InvalidArgument("not a message between agents");
  }
  FieldReader reader(TextOf(bytes).substr(sizeof(kMagic)));
  Frame frame;
  frame.kind = reader.Take<uint32_t>();
  frame.payload_bytes = reader.Take<uint64_t>();
  frame.hash = reader.Take<uint64_t>();
  if (frame.kind < static_cast<uint32_t>(PeerKind::kOffer) ||
      frame.kind > static_cast<uint32_t>(PeerKind::kProbeAnswer)) {
    return InvalidArgument("unknown kind of message " + std::to_string(frame.kind));
  }
  if (frame.payload_bytes > kMaxPeerPayload) {
    return InvalidArgument("a message of " + std::to_string(frame.payload_bytes) +
                           " bytes is longer than 256 MiB");
  }
  return frame;
}

}  // namespace

std::string ToString(const SnapshotKey& key) {
  return "step " + std::to_string(key.step) + " of rank " + std::to_string(key.rank) + " of job " +
         Printable(key.job);
}

Result<std::string> EncodePeerMessage(const PeerMessage& message) {
  std::string payload;
  if (HasSecret(message.kind)) PutText(payload, message.secret);
  if (HasContents(message.kind)) PutProbe(payload, message);
  if (HasRequest(message.kind) || HasPlan(message.kind)) {
    PutText(payload, message.key.job);
    PutField(payload, message.key.rank);
    PutField(payload, message.key.step);
    PutField(payload, message.key.attempt);
  }
  if (HasWhose(message.kind)) PutField(payload, uint32_t{message.copy});
  if (message.kind == PeerKind::kFetchChunks) PutWanted(payload, message);
  if (HasPlan(message.kind)) PutSnapshot(payload, message);
  if (message.kind == PeerKind::kRefused) {
    PutText(payload, std::string_view(message.reason).substr(0, kMaxText));
  }
  if (payload.size() > kMaxPeerPayload) {
    return ResourceExhausted("the plan of " + ToString(message.key) + " is longer than 256 MiB");
  }
  const auto kind = static_cast<uint32_t>(message.kind);
  std::string frame(kMagic, sizeof(kMagic));
  PutField(frame, kind);
  PutField(frame, uint64_t{payload.size()});
  // The kind is the seed of the hash, so that damage to it is found although it is not part of the
  // payload.
  PutField(frame, Hash64(payload, kind));
  return frame + payload;
}

Result<uint64_t> PeerPayloadBytes(std::span<const std::byte> frame) {
  ASSIGN_OR_RETURN(const Frame parsed, ParseFrame(frame));
  return parsed.payload_bytes;
}

Result<PeerMessage> ParsePeerMessage(std::span<const std::byte> frame,
                                     std::span<const std::byte> payload) {
  ASSIGN_OR_RETURN(const Frame parsed, ParseFrame(frame));
  if (payload.size() != parsed.payload_bytes || Hash64(payload, parsed.kind) != parsed.hash) {
    return DataLoss("a message between agents was damaged on its way");
  }
  PeerMessage message;
  message.kind = static_cast<PeerKind>(parsed.kind);
  FieldReader reader(TextOf(payload));
  if (HasSecret(message.kind)) message.secret = TakeText(reader, kMaxText);
  if (HasContents(message.kind)) TakeProbe(reader, message);
  if (HasRequest(message.kind) || HasPlan(message.kind)) {
    message.key.job = TakeText(reader, kMaxJobBytes);
    message.key.rank = reader.Take<uint32_t>();
    message.key.step = reader.Take<uint64_t>();
    message.key.attempt = reader.Take<uint64_t>();
    if (reader.ok() && (message.key.job.empty() || message.key.step == 0)) {
      return InvalidArgument("a message names no snapshot");
    }
  }
  if (HasWhose(message.kind)) {
    const auto copy = reader.Take<uint32_t>();
    if (copy > 1) reader.Fail();
    message.copy = copy == 1;
  }
  if (message.kind == PeerKind::kFetchChunks) TakeWanted(reader, message);
  if (HasPlan(message.kind)) RETURN_IF_ERROR(TakeSnapshot(reader, message));
  if (message.kind == PeerKind::kRefused) message.reason = TakeText(reader, kMaxText);
  // Bytes left over mean a message of another version, whose meaning would be guessed.
  if (!reader.ok() || reader.left() > 0) {
    return InvalidArgument("a message is cut short or has bytes left over");
  }
  return message;
}

std::string ProbeContents(uint64_t seed, uint64_t bytes) {
  Random random(seed);
  std::string contents(bytes, '\0');
  for (size_t at = 0; at < contents.size(); at += sizeof(uint64_t)) {
    const uint64_t word = random.Next();
    std::memcpy(contents.data() + at, &word, std::min(sizeof(word), contents.size() - at));
  }
  return contents;
}

Status SendPeerMessage(const PeerMessage& message, const WriteBytes& write) {
  ASSIGN_OR_RETURN(const std::string bytes, EncodePeerMessage(message));
  return write(std::as_bytes(std::span(bytes)));
}

Result<PeerMessage> ReceivePeerMessage(const ReadBytes& read) {
  std::byte frame[kPeerFrameBytes];
  RETURN_IF_ERROR(read(frame));
  ASSIGN_OR_RETURN(const uint64_t bytes, PeerPayloadBytes(frame));
  // In parts: a length alone makes us allocate little.
  constexpr uint64_t kPart = 1 << 20;
  std::vector<std::byte> payload;
  while (payload.size() < bytes) {
    const size_t at = payload.size();
    payload.resize(at + std::min(kPart, bytes - at));
    RETURN_IF_ERROR(read(std::span(payload).subspan(at)));
  }
  return ParsePeerMessage(frame, payload);
}

Status CheckChunks(const ArenaReader::Hashed& snapshot, std::span<const ChunkId> chunks) {
  for (const ChunkId& id : chunks) {
    const bool there =
        id.tensor < snapshot.chunks.size() && id.chunk < snapshot.chunks[id.tensor].size();
    if (there) continue;
    return InvalidArgument("the snapshot has no chunk " + std::to_string(id.chunk) + " of tensor " +
                           std::to_string(id.tensor));
  }
  return {};
}

// Each chunk is verified before it is sent: damage in this memory is reported here, by name, and
// not as a failure of the network. The caller holds a pin, so the slot does not change.
Status SendChunks(const ArenaReader::Hashed& snapshot, std::span<const ChunkId> chunks,
                  const WriteBytes& write) {
  RETURN_IF_ERROR(CheckChunks(snapshot, chunks));
  for (const ChunkId& id : chunks) {
    const auto tensor = snapshot.tensors[id.tensor];
    const size_t at = id.chunk * kChunkBytes;
    const auto chunk = tensor.subspan(at, std::min(kChunkBytes, tensor.size() - at));
    if (HashChunk(chunk) != snapshot.chunks[id.tensor][id.chunk]) {
      return DataLoss("tensor " + Printable(snapshot.plan.tensors()[id.tensor].name) + ", chunk " +
                      std::to_string(id.chunk) + ": the hash differs before it is sent");
    }
    RETURN_IF_ERROR(write(chunk));
  }
  return {};
}

Status SendSnapshotData(const ArenaReader::Hashed& snapshot, const WriteBytes& write) {
  std::vector<ChunkId> all;
  for (uint32_t tensor = 0; tensor < snapshot.chunks.size(); ++tensor) {
    const auto chunks = static_cast<uint32_t>(snapshot.chunks[tensor].size());
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) all.push_back({tensor, chunk});
  }
  return SendChunks(snapshot, all, write);
}

// Sealed only if every chunk has the announced hash. On any failure the slot stays unsealed, and
// the next transfer uses it first.
Status ReceiveSnapshotData(const PeerMessage& announced, const ReadBytes& read,
                           std::span<std::byte> arena) {
  ArenaWriter writer(arena);
  RETURN_IF_ERROR(writer.Begin(announced.key.step, announced.key.attempt, announced.plan));
  std::vector<std::byte> chunk(kChunkBytes);
  for (size_t i = 0; i < announced.plan.size(); ++i) {
    const uint64_t bytes = announced.plan.bytes(i);
    for (uint64_t at = 0; at < bytes; at += kChunkBytes) {
      const auto part = std::span(chunk).first(std::min<uint64_t>(kChunkBytes, bytes - at));
      RETURN_IF_ERROR(read(part));
      if (writer.WriteChunk(i, at / kChunkBytes, part) != announced.chunks[i][at / kChunkBytes]) {
        return DataLoss(ToString(announced.key) + ", tensor " +
                        Printable(announced.plan.tensors()[i].name) + ", chunk " +
                        std::to_string(at / kChunkBytes) + ": the hash differs");
      }
    }
  }
  writer.Seal();
  return {};
}

}  // namespace longhaul::checkpoint
