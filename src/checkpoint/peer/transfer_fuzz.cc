// Any bytes as a message between agents, as they are and with length and hash mended; what is
// accepted is written the same.

#include <cstdint>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/hash.h"
#include "checkpoint/peer/transfer.h"

using namespace longhaul;
using namespace longhaul::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kPeerFrameBytes) return 0;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto parse = [&bytes] {
    const auto all = std::as_bytes(std::span(bytes));
    return ParsePeerMessage(all.first(kPeerFrameBytes), all.subspan(kPeerFrameBytes));
  };
  (void)parse().ok();

  uint32_t kind = 0;
  std::memcpy(&kind, bytes.data() + 4, sizeof(kind));
  const uint64_t payload_bytes = size - kPeerFrameBytes;
  const uint64_t hash = Hash64(std::string_view(bytes).substr(kPeerFrameBytes), kind);
  std::memcpy(bytes.data() + 8, &payload_bytes, sizeof(payload_bytes));
  std::memcpy(bytes.data() + 16, &hash, sizeof(hash));
  const Result<PeerMessage> message = parse();
  if (message.ok()) CHECK(*EncodePeerMessage(*message) == bytes);
  return 0;
}
