#include "worker_api/server_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace longhaul::worker_api {
namespace {

constexpr size_t kMaxReasonBytes = 4096;
constexpr size_t kMaxWayBytes = 256;
constexpr uint32_t kMaxTier = 5;  // proto::Restore::TIER_PIECES
constexpr uint32_t kMaxWay = 3;   // proto::FORKED
constexpr uint64_t kMaxPlanBytes = 256 << 20;
constexpr uint64_t kMaxRank = 1u << 24;
constexpr uint64_t kMaxStep = uint64_t{1} << 62;

Status BadMessage(const std::string& what) {
  return InvalidArgument("bad message on the worker API: " + what);
}

// The struct at the packet's start. Requires a packet at least as long.
template <typename Message>
Message LoadMessage(std::span<const std::byte> packet) {
  Message message;
  std::memcpy(static_cast<void*>(&message), packet.data(), sizeof(message));
  return message;
}

bool AreTimes(std::initializer_list<int64_t> times) {
  return std::all_of(times.begin(), times.end(), [](int64_t time) { return time >= 0; });
}

Result<FromWorker> Check(const Hello& hello, std::string) {
  if (hello.version != kProtocolVersion) {
    return FailedPrecondition("the worker's liblonghaul speaks version " +
                              std::to_string(hello.version) + " of the worker API, not " +
                              std::to_string(kProtocolVersion));
  }
  if (hello.rank > kMaxRank || hello.attempt > kMaxStep || hello.pid <= 0 ||
      hello.started_at_ns < 0) {
    return BadMessage("Hello out of range");
  }
  return FromWorker(hello);
}
Result<FromWorker> Check(const PhaseMessage& phase, std::string) {
  if (phase.phase < 1 || phase.phase > 5 || phase.at_ns < 0)
    return BadMessage("Phase out of range");
  return FromWorker(phase);
}
Result<FromWorker> Check(const StepMessage& step, std::string) {
  if (step.step == 0 || step.step > kMaxStep ||
      !AreTimes({step.at_ns, step.data_ns, step.snapshot_ns, step.evaluation_ns,
                 step.communication_ns})) {
    return BadMessage("Step out of range");
  }
  // Losses and norms may be unknown (NaN) or have diverged (infinite): that is for the controller
  // to judge. What is counted can be neither.
  if (!(step.flops >= 0) || std::isinf(step.flops))
    return BadMessage("Step's flops are not a count");
  return FromWorker(step);
}
Result<FromWorker> Check(const ArenaRequest& request, std::string) {
  if (request.bytes > kMaxArenaBytes) return BadMessage("ArenaRequest is larger than 64 TiB");
  return FromWorker(request);
}
Result<FromWorker> Check(const SealedMessage& sealed, std::string way) {
  if (sealed.step == 0 || sealed.step > kMaxStep ||
      !AreTimes({sealed.blocked_ns, sealed.waited_ns}) || sealed.bytes > kMaxArenaBytes ||
      sealed.way > kMaxWay) {
    return BadMessage("Sealed out of range");
  }
  return FromWorker(Sealed{sealed, std::move(way)});
}
Result<FromWorker> Check(const RestoredMessage& restored, std::string) {
  if (restored.step > kMaxStep || restored.tier > kMaxTier || restored.took_ns < 0) {
    return BadMessage("Restored out of range");
  }
  return FromWorker(restored);
}
Result<FromWorker> Check(const WaitsMessage& waits, std::string holders) {
  if (waits.step > kMaxStep || waits.waited_ns < 0) return BadMessage("Waits out of range");
  return FromWorker(Waits{waits, std::move(holders)});
}
Result<FromWorker> Check(const RestoreFailedMessage& failed, std::string reason) {
  if (failed.step > kMaxStep || failed.tier > kMaxTier)
    return BadMessage("RestoreFailed out of range");
  return FromWorker(RestoreFailed{failed, std::move(reason)});
}
Result<FromWorker> Check(const PiecesRequest& request, std::string) {
  if (request.plan_bytes > kMaxPlanBytes) return BadMessage("a plan of more than 256 MiB");
  return FromWorker(request);
}
Result<FromWorker> Check(const ResultMessage&, std::string json) {
  return FromWorker(ResultText{std::move(json)});
}

Result<FromWorker> Check(const ContinuesMessage& continues, std::string) {
  if (continues.version != kProtocolVersion) {
    return FailedPrecondition("longhaul.elastic uses version " + std::to_string(continues.version) +
                              " of the worker API, expected " + std::to_string(kProtocolVersion) +
                              ": install the package longhaul of the agent's version");
  }
  if (continues.rank > kMaxRank || continues.attempt > kMaxStep || continues.pid <= 0) {
    return BadMessage("Continues out of range");
  }
  return FromWorker(continues);
}
Result<FromWorker> Check(const LeftMessage& left, std::string) { return FromWorker(left); }

template <typename Message>
Result<FromWorker> Parse(std::span<const std::byte> packet, const char* name,
                         size_t max_payload = 0) {
  if (packet.size() < sizeof(Message)) return BadMessage(std::string(name) + " is cut short");
  const Message message = LoadMessage<Message>(packet);
  const auto payload = packet.subspan(sizeof(Message));
  if (message.header.payload_bytes != payload.size() || payload.size() > max_payload) {
    return BadMessage(std::string(name) + " has a payload of " + std::to_string(payload.size()) +
                      " bytes");
  }
  return Check(message, std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
}

template <typename Message>
std::vector<std::byte> Encode(Message message, std::string_view payload) {
  message.header.payload_bytes = static_cast<uint32_t>(payload.size());
  std::vector<std::byte> packet(sizeof(Message) + payload.size());
  std::memcpy(packet.data(), &message, sizeof(Message));
  if (!payload.empty()) {
    std::memcpy(packet.data() + sizeof(Message), payload.data(), payload.size());
  }
  return packet;
}

}  // namespace

Result<FromWorker> ParseFromWorker(std::span<const std::byte> packet) {
  if (packet.size() < sizeof(Header) || packet.size() > kMaxMessageBytes) {
    return BadMessage("a packet of " + std::to_string(packet.size()) + " bytes");
  }
  const Header header = LoadMessage<Header>(packet);
  switch (header.type) {
    case MessageType::kHello:
      return Parse<Hello>(packet, "Hello");
    case MessageType::kPhase:
      return Parse<PhaseMessage>(packet, "Phase");
    case MessageType::kStep:
      return Parse<StepMessage>(packet, "Step");
    case MessageType::kArenaRequest:
      return Parse<ArenaRequest>(packet, "ArenaRequest");
    case MessageType::kSealed:
      return Parse<SealedMessage>(packet, "Sealed", kMaxWayBytes);
    case MessageType::kPieces:
      return Parse<PiecesRequest>(packet, "Pieces");
    case MessageType::kWaits:
      return Parse<WaitsMessage>(packet, "Waits", kMaxReasonBytes);
    case MessageType::kRestoreFailed:
      return Parse<RestoreFailedMessage>(packet, "RestoreFailed", kMaxReasonBytes);
    case MessageType::kResult:
      return Parse<ResultMessage>(packet, "Result", kMaxResultBytes);
    case MessageType::kRestored:
      return Parse<RestoredMessage>(packet, "Restored");
    case MessageType::kContinues:
      return Parse<ContinuesMessage>(packet, "Continues");
    case MessageType::kLeft:
      return Parse<LeftMessage>(packet, "Left");
    default:
      return BadMessage("type " + std::to_string(static_cast<uint32_t>(header.type)));
  }
}

std::vector<std::vector<std::byte>> EncodeWelcome(const WelcomeContent& content) {
  CHECK(content.checkpoint_directory.size() <= 4096);
  Welcome welcome;
  welcome.restore_tier = content.restore_tier;
  welcome.restore_step = content.restore_step;
  welcome.restore_saved_attempt = content.restore_saved_attempt;
  welcome.restore_rank = content.restore_rank;
  welcome.snapshot_interval_steps = content.snapshot_interval_steps;
  welcome.lease_samples = content.lease_samples;
  welcome.lease_global_batch = content.lease_global_batch;
  welcome.lease_seed = content.lease_seed;
  welcome.lease_first_step = content.lease_first_step;
  welcome.lease_end_step = content.lease_end_step;
  welcome.directory_bytes = static_cast<uint32_t>(content.checkpoint_directory.size());

  const std::string text = content.checkpoint_directory + content.config;
  constexpr size_t kMaxPayload = kMaxMessageBytes - sizeof(Welcome);
  std::vector<std::vector<std::byte>> packets;
  size_t at = 0;
  do {
    const std::string_view part = std::string_view(text).substr(at, kMaxPayload);
    at += part.size();
    welcome.more = at < text.size();
    packets.push_back(Encode(welcome, part));
  } while (at < text.size());
  return packets;
}

std::vector<std::byte> EncodeArena(uint64_t bytes) {
  ArenaMessage message;
  message.bytes = bytes;
  return Encode(message, "");
}

std::vector<std::byte> EncodeArenaRefused(std::string_view reason) {
  return Encode(ArenaMessage{}, reason.substr(0, kMaxReasonBytes));
}

std::vector<std::byte> EncodePieces(uint64_t bytes) {
  PiecesMessage message;
  message.bytes = bytes;
  return Encode(message, "");
}

std::vector<std::byte> EncodePiecesRefused(std::string_view reason, bool of_another_state) {
  PiecesMessage message;
  message.of_another_state = of_another_state ? 1 : 0;
  return Encode(message, reason.substr(0, kMaxReasonBytes));
}

std::vector<std::byte> EncodeSnapshotInterval(uint64_t steps) {
  SnapshotIntervalMessage message;
  message.steps = steps;
  return Encode(message, "");
}

std::vector<std::byte> EncodeLeave() { return Encode(LeaveMessage{}, ""); }

Result<std::vector<std::byte>> EncodeContinue(
    uint64_t attempt, const std::map<std::string, std::string>& environment) {
  std::string text;
  for (const auto& [name, value] : environment) {
    text += name + "=" + value;
    text += '\0';
  }
  if (text.size() > kMaxMessageBytes - sizeof(ContinueMessage)) {
    return InvalidArgument("the environment of the next attempt has " +
                           std::to_string(text.size()) + " bytes, expected at most " +
                           std::to_string(kMaxMessageBytes - sizeof(ContinueMessage)));
  }
  ContinueMessage message;
  message.attempt = attempt;
  return Encode(message, text);
}

}  // namespace longhaul::worker_api
