// The agent's end of the worker API as pure functions: parses and checks packets, and encodes them.
//
// A worker is not trusted: sizes, ranges and enums are checked here, and NaN is accepted only where
// the protocol gives it a meaning. Leaves out the sockets and the handling of messages, which are
// the agent's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "worker_api/protocol.h"

namespace longhaul::worker_api {

struct Sealed {
  SealedMessage message;
  std::string way;
};
struct RestoreFailed {
  RestoreFailedMessage message;
  std::string reason;
};
struct Waits {
  WaitsMessage message;
  std::string holders;
};
struct ResultText {
  std::string json;  // at most kMaxResultBytes; not parsed
};
constexpr size_t kMaxResultBytes = 64 * 1024;
constexpr uint64_t kMaxArenaBytes = uint64_t{1} << 46;

using FromWorker =
    std::variant<Hello, PhaseMessage, StepMessage, ArenaRequest, Sealed, RestoredMessage,
                 RestoreFailed, Waits, PiecesRequest, ResultText, ContinuesMessage, LeftMessage>;

// Parses a packet of a worker. Returns kInvalidArgument with the problem, on which the agent closes
// the connection; kFailedPrecondition: a Hello of another protocol version.
Result<FromWorker> ParseFromWorker(std::span<const std::byte> packet);

// The content of the Welcome after a worker's Hello.
struct WelcomeContent {
  uint32_t restore_tier = 0;  // proto::Restore::Tier
  uint64_t restore_step = 0;
  uint64_t restore_saved_attempt = 0;
  uint32_t restore_rank = 0;
  uint64_t snapshot_interval_steps = 0;
  uint64_t lease_samples = 0;
  uint64_t lease_global_batch = 0;
  uint64_t lease_seed = 0;
  uint64_t lease_first_step = 0;
  uint64_t lease_end_step = 0;
  std::string checkpoint_directory;
  std::string config;  // of the trainer, JSON

  friend bool operator==(const WelcomeContent&, const WelcomeContent&) = default;
};
// Encodes one packet or several, to be sent in this order. Requires a directory of at most 4 KiB.
std::vector<std::vector<std::byte>> EncodeWelcome(const WelcomeContent& content);

// The answer to an ArenaRequest: sent with the arena's descriptor, or with a reason and without
// one.
std::vector<std::byte> EncodeArena(uint64_t bytes);
std::vector<std::byte> EncodeArenaRefused(std::string_view reason);

// The answer to a PiecesRequest, in the same way.
std::vector<std::byte> EncodePieces(uint64_t bytes);
std::vector<std::byte> EncodePiecesRefused(std::string_view reason, bool of_another_state);

std::vector<std::byte> EncodeSnapshotInterval(uint64_t steps);

// For workers that continue in a later attempt.
std::vector<std::byte> EncodeLeave();
// Returns an error if the environment is too long for one packet.
Result<std::vector<std::byte>> EncodeContinue(
    uint64_t attempt, const std::map<std::string, std::string>& environment);

}  // namespace longhaul::worker_api
