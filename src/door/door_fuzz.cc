// Any bytes as a packet, in both directions: refused or taken, never a crash.

#include <cstdint>

#include "door/client_codec.h"
#include "door/server_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> packet(reinterpret_cast<const std::byte*>(data), size);
  (void)longhaul::door::ParseFromWorker(packet).ok();
  const auto message = longhaul::door::ParseFromAgent(packet);
  if (!message.ok()) return 0;
  if (const auto* part = std::get_if<longhaul::door::WelcomePart>(&*message)) {
    longhaul::door::WelcomeAssembler assembler;
    (void)assembler.Add(*part).ok();
    (void)assembler.Add(*part).ok();
  }
  return 0;
}
