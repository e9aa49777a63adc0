#include "worker_api/client_codec.h"

#include <cstring>

namespace longhaul::worker_api {
namespace {

constexpr size_t kMaxWelcomeBytes = 64 << 20;
constexpr uint32_t kMaxRestoreTier = 5;  // proto::Restore::TIER_PIECES

Status Bad(const std::string& what) { return InvalidArgument("bad message of the agent: " + what); }

// The struct and what follows it.
template <typename Message>
Result<std::pair<Message, std::string>> Load(std::span<const std::byte> packet) {
  Message message;
  if (packet.size() < sizeof(Message)) return Bad("cut short");
  std::memcpy(static_cast<void*>(&message), packet.data(), sizeof(Message));
  const auto payload = packet.subspan(sizeof(Message));
  if (message.header.payload_bytes != payload.size()) return Bad("wrong payload size");
  return std::pair(message,
                   std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
}

}  // namespace

Result<FromAgent> ParseFromAgent(std::span<const std::byte> packet) {
  Header header{};
  if (packet.size() < sizeof(header) || packet.size() > kMaxMessageBytes) {
    return Bad("a packet of " + std::to_string(packet.size()) + " bytes");
  }
  std::memcpy(static_cast<void*>(&header), packet.data(), sizeof(header));
  if (header.type == MessageType::kWelcome) {
    ASSIGN_OR_RETURN(auto loaded, Load<Welcome>(packet));
    if (loaded.first.restore_tier > kMaxRestoreTier) return Bad("unknown restore tier");
    return FromAgent(WelcomePart{loaded.first, std::move(loaded.second)});
  }
  if (header.type == MessageType::kArena) {
    ASSIGN_OR_RETURN(auto loaded, Load<ArenaMessage>(packet));
    return FromAgent(ArenaAnswer{loaded.first.bytes, std::move(loaded.second)});
  }
  if (header.type == MessageType::kPiecesAnswer) {
    ASSIGN_OR_RETURN(auto loaded, Load<PiecesMessage>(packet));
    return FromAgent(PiecesAnswer{loaded.first.bytes, loaded.first.of_another_state != 0,
                                  std::move(loaded.second)});
  }
  if (header.type == MessageType::kSnapshotInterval) {
    ASSIGN_OR_RETURN(auto loaded, Load<SnapshotIntervalMessage>(packet));
    if (!loaded.second.empty()) return Bad("a payload where none may be");
    return FromAgent(loaded.first);
  }
  return Bad("type " + std::to_string(static_cast<uint32_t>(header.type)));
}

Result<std::optional<WelcomeContent>> WelcomeAssembler::Add(const WelcomePart& part) {
  text_ += part.text;
  if (text_.size() > kMaxWelcomeBytes) return Bad("a configuration of more than 64 MiB");
  const Welcome& welcome = part.welcome;
  if (welcome.more != 0) return std::optional<WelcomeContent>();
  if (welcome.directory_bytes > text_.size()) return Bad("a directory longer than its packet");
  WelcomeContent content;
  content.restore_tier = welcome.restore_tier;
  content.restore_step = welcome.restore_step;
  content.restore_saved_attempt = welcome.restore_saved_attempt;
  content.restore_rank = welcome.restore_rank;
  content.snapshot_interval_steps = welcome.snapshot_interval_steps;
  content.lease_samples = welcome.lease_samples;
  content.lease_global_batch = welcome.lease_global_batch;
  content.lease_seed = welcome.lease_seed;
  content.lease_first_step = welcome.lease_first_step;
  content.lease_end_step = welcome.lease_end_step;
  content.checkpoint_directory = text_.substr(0, welcome.directory_bytes);
  content.config = text_.substr(welcome.directory_bytes);
  text_.clear();
  return std::optional(std::move(content));
}

}  // namespace longhaul::worker_api
