// The messages of the worker API, between a worker and its agent: a SOCK_SEQPACKET Unix socket, one
// message in each packet, a small fixed struct followed by a payload. It doesn't use protobuf,
// because liblonghaul.so must work in any process with any other library. docs/worker-api.md has
// the sequence diagram.
//
// Both ends run on one host and are of one build, so structs are sent as they are in memory; the
// version number in Hello detects another build. The receiver checks the size and range of every
// message: an agent does not trust its workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace longhaul::worker_api {

constexpr uint32_t kProtocolVersion = 4;
constexpr size_t kMaxMessageBytes = 128 * 1024;  // below the default wmem_max of 208 KiB

enum class MessageType : uint32_t {
  // worker to agent
  kHello = 1,          // Hello
  kPhase = 2,          // PhaseMessage
  kStep = 3,           // StepMessage
  kArenaRequest = 4,   // ArenaRequest; the agent answers kArena
  kSealed = 5,         // SealedMessage + the way of the copy as a text
  kRestoreFailed = 6,  // RestoreFailedMessage + reason text
  kResult = 7,         // Header only + JSON text
  kRestored = 8,       // RestoredMessage
  kWaits = 9,          // WaitsMessage + a text: what occupies each slot
  kPieces = 10,     // PiecesRequest + one descriptor when it has a plan; answered by kPiecesAnswer
  kContinues = 11,  // ContinuesMessage, the first one of a connection of its own instead of Hello
  kLeft = 12,       // Header only: the worker has left its group
  // agent to worker
  kWelcome = 64,           // Welcome + checkpoint directory, then trainer config (two texts)
  kArena = 65,             // ArenaMessage + one descriptor (none when refused)
  kSnapshotInterval = 66,  // SnapshotIntervalMessage
  kPiecesAnswer = 67,      // PiecesMessage + one descriptor (none when refused)
  kLeave = 68,             // Header only: the worker leaves its group
  kContinue = 69,  // ContinueMessage + NAME=VALUE with a NUL behind each; the log's descriptor
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

// A configuration that doesn't fit one packet is split over several kWelcome packets. All but the
// last have `more` set.
struct Welcome {
  Header header{MessageType::kWelcome, 0};
  uint32_t restore_tier = 0;  // proto::Restore::Tier
  uint32_t more = 0;
  uint64_t restore_step = 0;
  uint64_t restore_saved_attempt = 0;
  uint64_t snapshot_interval_steps = 0;  // 0: none at present
  uint64_t lease_samples = 0;
  uint64_t lease_global_batch = 0;
  uint64_t lease_seed = 0;
  uint64_t lease_first_step = 0;
  uint64_t lease_end_step = 0;
  uint32_t directory_bytes = 0;  // of the payload, which starts with the run's checkpoint directory
  uint32_t restore_rank = 0;     // with TIER_DISK: the rank whose piece to read
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
  double loss = 0;             // NaN: unknown
  double validation_loss = 0;  // NaN: none
  double gradient_norm = 0;
  uint64_t tokens = 0;
  double flops = 0;
};

struct ArenaRequest {
  Header header{MessageType::kArenaRequest, 0};
  uint64_t bytes = 0;  // 0: send the existing one, if any
};
struct ArenaMessage {
  Header header{MessageType::kArena, 0};  // payload: the reason when there is no descriptor
  uint64_t bytes = 0;
};

struct SealedMessage {
  Header header{MessageType::kSealed, 0};
  uint64_t step = 0;
  int64_t blocked_ns = 0;
  int64_t waited_ns = 0;  // part of it, for a slot
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
  uint64_t step = 0;  // to be snapshotted
  int64_t waited_ns = 0;
};
// For restore tier TIER_PIECES: the state comes from snapshots of other layouts. With a plan (in a
// memfd, as StatePlan::Encode) the agent assembles its boxes; without one it returns the plan of
// the saved state.
struct PiecesRequest {
  Header header{MessageType::kPieces, 0};
  uint64_t plan_bytes = 0;  // 0: none
};
// The descriptor is an arena with the state sealed in a slot, or the plan of the saved state.
struct PiecesMessage {
  Header header{MessageType::kPiecesAnswer, 0};  // payload: the reason when there is none
  uint64_t bytes = 0;                            // of the arena, or of the plan
  uint32_t of_another_state = 0;  // the reason of a refusal that is not the pieces' fault
  uint32_t reserved = 0;
};
struct ResultMessage {
  Header header{MessageType::kResult, 0};
};
struct SnapshotIntervalMessage {
  Header header{MessageType::kSnapshotInterval, 0};
  uint64_t steps = 0;
};

// The worker can take part in a later attempt in the same process.
struct ContinuesMessage {
  Header header{MessageType::kContinues, 0};
  uint32_t version = kProtocolVersion;
  uint32_t rank = 0;
  uint64_t attempt = 0;
  int64_t pid = 0;
};
struct LeftMessage {
  Header header{MessageType::kLeft, 0};
};
struct LeaveMessage {
  Header header{MessageType::kLeave, 0};
};
struct ContinueMessage {
  Header header{MessageType::kContinue, 0};
  uint64_t attempt = 0;
};

static_assert(std::is_trivially_copyable_v<Welcome> && std::is_trivially_copyable_v<StepMessage>);

}  // namespace longhaul::worker_api
