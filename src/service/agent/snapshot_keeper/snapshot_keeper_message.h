// The messages between an agent and its snapshot keeper (snapshot_keeper.h), one packet each.
//
// A packet: u32 magic, u32 kind, u32 rank, u32 copy (0 or 1), u32 number, u32 bytes of the text,
// then the text. Integers are in the byte order of the host, since both ends run on it. The
// descriptor of an arena is sent with kPut and kHeld.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace longhaul::service {

enum class SnapshotKeeperKind : uint32_t {
  kHello = 1,    // the first message of an agent; text: its node
  kWelcome = 2,  // text: empty; number: of arenas that follow as kHeld; rank: the snapshot keeper's
                 // process
  kHeld = 3,     // an arena that is kept
  kRefused = 4,  // text: the reason; the connection ends
  kPut = 5,      // keep this arena instead of the earlier one; text: its job
  kDropJob = 6,  // drop all arenas of the job
  kDropOne = 7,  // drop this arena
  kEnd = 8,      // nothing need be kept any more
};

struct SnapshotKeeperMessage {
  SnapshotKeeperKind kind = SnapshotKeeperKind::kHello;
  uint32_t rank = 0;
  bool copy = false;  // a copy of another node's snapshots
  uint32_t number = 0;
  std::string text;

  friend bool operator==(const SnapshotKeeperMessage&, const SnapshotKeeperMessage&) = default;
};

constexpr size_t kMaxSnapshotKeeperText = 1024;
constexpr size_t kMaxSnapshotKeeperPacket = 6 * sizeof(uint32_t) + kMaxSnapshotKeeperText;

// Requires a text of at most kMaxSnapshotKeeperText bytes.
std::vector<std::byte> EncodeSnapshotKeeperMessage(const SnapshotKeeperMessage& message);

// Returns kInvalidArgument unless EncodeSnapshotKeeperMessage wrote the packet.
Result<SnapshotKeeperMessage> ParseSnapshotKeeperMessage(std::span<const std::byte> packet);

}  // namespace longhaul::service
