// What worker and agent say to each other over the worker API: a SOCK_SEQPACKET Unix socket, one
// message a packet, fixed little structs followed by a payload. No protobuf, because liblonghaul.so
// must live in any process beside any other library. docs/worker-api.md has the sequence diagram.
//
// Both ends run on one host and are of one build, so structs travel as they lie in memory; a
// version number in Hello refuses another build. Every message is checked by size and range on
// arrival: a worker is not trusted by its agent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace longhaul::worker_api {

constexpr uint32_t kProtocolVersion = 3;
constexpr size_t kMaxMessageBytes = 128 * 1024;  // below the default wmem_max of 208 KiB

enum class MessageType : uint32_t {
  // worker to agent
  kHello = 1,          // Hello
  kPhase = 2,          // PhaseMessage
  kStep = 3,           // StepMessage
  kArenaRequest = 4,   // ArenaRequest; the agent answers kArena
  kSealed = 5,         // SealedMessage + the way of the copy, in words
  kRestoreFailed = 6,  // RestoreFailedMessage + reason text
  kResult = 7,         // Header only + JSON text
  kRestored = 8,       // RestoredMessage
  kWaits = 9,          // WaitsMessage + who holds what, in words
  kPieces = 10,  // PiecesRequest + one descriptor when it has a plan; answered by kPiecesAnswer
  // agent to worker
  kWelcome = 64,           // Welcome + checkpoint directory, then trainer config (two texts)
  kArena = 65,             // ArenaMessage + one descriptor (none when refused)
  kSnapshotInterval = 66,  // SnapshotIntervalMessage
  kPiecesAnswer = 67,      // PiecesMessage + one descriptor (none when refused)
};

// Every message starts with this.
struct Header {
  MessageType type;
  uint32_t payload_bytes;  // after the struct
};

struct Hello {
  Header header{MessageType::kHello, 0};
  uint32_t version = kProtocolVersion;
  uint32_t rank = 0;
  uint64_t attempt = 0;
  int64_t pid = 0;
  int64_t started_at_ns = 0;  // CLOCK_REALTIME when the process began
};

// If the configuration doesn't fit a packet, it is cut into several kWelcome packets, `more` set on
// all but the last.
struct Welcome {
  Header header{MessageType::kWelcome, 0};
  uint32_t restore_tier = 0;  // proto::Restore::Tier
  uint32_t more = 0;
  uint64_t restore_step = 0;
  uint64_t restore_saved_attempt = 0;
  uint64_t snapshot_interval_steps = 0;  // 0: none for now
  uint64_t lease_samples = 0;
  uint64_t lease_global_batch = 0;
  uint64_t lease_seed = 0;
  uint64_t lease_first_step = 0;
  uint64_t lease_end_step = 0;
  uint32_t directory_bytes = 0;  // of the payload: the run's checkpoint directory comes first
  uint32_t restore_rank = 0;     // with TIER_DISK: whose piece to read
};

struct PhaseMessage {
  Header header{MessageType::kPhase, 0};
  uint32_t phase = 0;  // longhaul_phase_kind
  uint32_t reserved = 0;
  int64_t at_ns = 0;
};

struct StepMessage {
  Header header{MessageType::kStep, 0};
  uint64_t step = 0;
  int64_t at_ns = 0;
  int64_t data_ns = 0;
  int64_t snapshot_ns = 0;
  int64_t evaluation_ns = 0;
  int64_t communication_ns = 0;
  double loss = 0;             // NaN: not known
  double validation_loss = 0;  // NaN: none
  double gradient_norm = 0;
  uint64_t tokens = 0;
  double flops = 0;
};

struct ArenaRequest {
  Header header{MessageType::kArenaRequest, 0};
  uint64_t bytes = 0;  // 0: hand over the one that is there, if any
};
struct ArenaMessage {
  Header header{MessageType::kArena, 0};  // payload: the reason when there is no descriptor
  uint64_t bytes = 0;
};

struct SealedMessage {
  Header header{MessageType::kSealed, 0};
  uint64_t step = 0;
  int64_t blocked_ns = 0;
  int64_t waited_ns = 0;  // of it, for a slot
  uint64_t bytes = 0;
  uint32_t way = 0;  // proto::SnapshotWay
  uint32_t reserved = 0;
};
struct RestoredMessage {
  Header header{MessageType::kRestored, 0};
  uint64_t step = 0;
  uint32_t tier = 0;
  uint32_t reserved = 0;
  int64_t took_ns = 0;
};
struct RestoreFailedMessage {
  Header header{MessageType::kRestoreFailed, 0};
  uint64_t step = 0;
  uint32_t tier = 0;
  uint32_t reserved = 0;
};
struct WaitsMessage {
  Header header{MessageType::kWaits, 0};
  uint64_t step = 0;  // that is to be snapshotted
  int64_t waited_ns = 0;
};
// With restore tier TIER_PIECES: the state comes from snapshots of other layouts. With a plan (in a
// memfd, as StatePlan::Encode) the agent reads its boxes together; without one it tells the plan of
// what was saved.
struct PiecesRequest {
  Header header{MessageType::kPieces, 0};
  uint64_t plan_bytes = 0;  // 0: none
};
// The descriptor is an arena with the state sealed in a slot, or the plan of what was saved.
struct PiecesMessage {
  Header header{MessageType::kPiecesAnswer, 0};  // payload: the reason when there is none
  uint64_t bytes = 0;                            // of the arena, or of the plan
  uint32_t of_another_state = 0;                 // the reason: not to be held against the pieces
  uint32_t reserved = 0;
};
struct ResultMessage {
  Header header{MessageType::kResult, 0};
};
struct SnapshotIntervalMessage {
  Header header{MessageType::kSnapshotInterval, 0};
  uint64_t steps = 0;
};

static_assert(std::is_trivially_copyable_v<Welcome> && std::is_trivially_copyable_v<StepMessage>);

}  // namespace longhaul::worker_api
