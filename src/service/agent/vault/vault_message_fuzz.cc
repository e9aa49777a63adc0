// Any bytes as a message to the vault: refused, or written back as they were.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "service/agent/vault/vault_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto message = longhaul::service::ParseVaultMessage(bytes);
  if (!message.ok()) return 0;
  const auto again = longhaul::service::EncodeVaultMessage(*message);
  if (!std::ranges::equal(again, bytes)) std::abort();
  return 0;
}
