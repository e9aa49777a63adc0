// Any bytes as a packet, in both directions and to a warm parent: refused or taken, never a crash.

#include <cstdint>

#include "base/check.h"
#include "door/client_codec.h"
#include "door/server_codec.h"
#include "door/warm_parent.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> packet(reinterpret_cast<const std::byte*>(data), size);
  (void)longhaul::door::ParseFromWorker(packet).ok();
  if (const auto start = longhaul::door::ParseWarmRequest(packet); start.ok()) {
    const auto again = longhaul::door::EncodeWarmRequest(*start);
    CHECK(again.ok());
    CHECK(*longhaul::door::ParseWarmRequest(*again) == *start);
  }
  const auto message = longhaul::door::ParseFromAgent(packet);
  if (!message.ok()) return 0;
  if (const auto* part = std::get_if<longhaul::door::WelcomePart>(&*message)) {
    longhaul::door::WelcomeAssembler assembler;
    (void)assembler.Add(*part).ok();
    (void)assembler.Add(*part).ok();
  }
  return 0;
}
