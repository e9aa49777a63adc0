// What an agent and its snapshot keeper (snapshot_keeper.h) say to each other, one packet a
// message.
//
// A packet: u32 magic, u32 kind, u32 rank, u32 copy (0 or 1), u32 number, u32 bytes of the text,
// the text; in this machine's byte order, both ends are on it. The descriptor of an arena travels
// with kPut and kHeld.
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
  kHeld = 3,     // an arena, as it was put
  kRefused = 4,  // text: why; the connection ends
  kPut = 5,      // keep this arena in place of what was there; text: its job
  kDropJob = 6,  // forget all arenas of the job
  kDropOne = 7,  // forget that one
  kEnd = 8,      // nothing has to be kept any more
};

struct SnapshotKeeperMessage {
  SnapshotKeeperKind kind = SnapshotKeeperKind::kHello;
  uint32_t rank = 0;
  bool copy = false;  // of another node's snapshots
  uint32_t number = 0;
  std::string text;

  friend bool operator==(const SnapshotKeeperMessage&, const SnapshotKeeperMessage&) = default;
};

constexpr size_t kMaxSnapshotKeeperText = 1024;
constexpr size_t kMaxSnapshotKeeperPacket = 6 * sizeof(uint32_t) + kMaxSnapshotKeeperText;

// Requires a text of at most kMaxSnapshotKeeperText bytes.
std::vector<std::byte> EncodeSnapshotKeeperMessage(const SnapshotKeeperMessage& message);

// kInvalidArgument when it is nothing that EncodeSnapshotKeeperMessage wrote.
Result<SnapshotKeeperMessage> ParseSnapshotKeeperMessage(std::span<const std::byte> packet);

}  // namespace longhaul::service
