#include "service/agent/snapshot_keeper/snapshot_keeper_message.h"

#include <array>
#include <cstring>

#include "base/check.h"

namespace longhaul::service {
namespace {

constexpr uint32_t kMagic = 0x3156484c;  // "LHV1"
using Head = std::array<uint32_t, 6>;

}  // namespace

std::vector<std::byte> EncodeSnapshotKeeperMessage(const SnapshotKeeperMessage& message) {
  CHECK(message.text.size() <= kMaxSnapshotKeeperText);
  const Head head = {kMagic,         static_cast<uint32_t>(message.kind),
                     message.rank,   message.copy ? 1u : 0u,
                     message.number, static_cast<uint32_t>(message.text.size())};
  std::vector<std::byte> packet(sizeof(head) + message.text.size());
  std::memcpy(packet.data(), head.data(), sizeof(head));
  std::memcpy(packet.data() + sizeof(head), message.text.data(), message.text.size());
  return packet;
}

Result<SnapshotKeeperMessage> ParseSnapshotKeeperMessage(std::span<const std::byte> packet) {
  Head head;
  if (packet.size() < sizeof(head)) {
    return InvalidArgument("a snapshot keeper's message of " + std::to_string(packet.size()) +
                           " bytes");
  }
  std::memcpy(head.data(), packet.data(), sizeof(head));
  const auto [magic, kind, rank, copy, number, bytes] = head;
  if (magic != kMagic) return InvalidArgument("not a snapshot keeper's message");
  if (kind < static_cast<uint32_t>(SnapshotKeeperKind::kHello) ||
      kind > static_cast<uint32_t>(SnapshotKeeperKind::kEnd) || copy > 1) {
    return InvalidArgument("a snapshot keeper's message of kind " + std::to_string(kind));
  }
  if (bytes > kMaxSnapshotKeeperText || packet.size() != sizeof(head) + bytes) {
    return InvalidArgument("a snapshot keeper's message that tells " + std::to_string(bytes) +
                           " bytes of text and has " + std::to_string(packet.size()) + " in all");
  }
  SnapshotKeeperMessage message{static_cast<SnapshotKeeperKind>(kind), rank, copy == 1, number, {}};
  message.text.assign(reinterpret_cast<const char*>(packet.data()) + sizeof(head), bytes);
  return message;
}

}  // namespace longhaul::service
