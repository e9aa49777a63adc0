// Any bytes as a packet, in both directions and to a fork server: refused or taken, never a crash.

#include <cstdint>

#include "base/check.h"
#include "worker_api/client_codec.h"
#include "worker_api/fork_server.h"
#include "worker_api/server_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> packet(reinterpret_cast<const std::byte*>(data), size);
  (void)longhaul::worker_api::ParseFromWorker(packet).ok();
  if (const auto start = longhaul::worker_api::ParseWarmRequest(packet); start.ok()) {
    const auto again = longhaul::worker_api::EncodeWarmRequest(*start);
    CHECK(again.ok());
    CHECK(*longhaul::worker_api::ParseWarmRequest(*again) == *start);
  }
  const auto message = longhaul::worker_api::ParseFromAgent(packet);
  if (!message.ok()) return 0;
  if (const auto* part = std::get_if<longhaul::worker_api::WelcomePart>(&*message)) {
    longhaul::worker_api::WelcomeAssembler assembler;
    (void)assembler.Add(*part).ok();
    (void)assembler.Add(*part).ok();
  }
  return 0;
}
