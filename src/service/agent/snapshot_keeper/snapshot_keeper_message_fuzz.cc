// Any bytes as a message to the snapshot keeper: refused, or written back as they were.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "service/agent/snapshot_keeper/snapshot_keeper_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto message = longhaul::service::ParseSnapshotKeeperMessage(bytes);
  if (!message.ok()) return 0;
  const auto again = longhaul::service::EncodeSnapshotKeeperMessage(*message);
  if (!std::ranges::equal(again, bytes)) std::abort();
  return 0;
}
