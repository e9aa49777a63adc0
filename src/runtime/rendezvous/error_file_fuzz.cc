// Any bytes as an error file: no crash, and what is read is within its limits and valid UTF-8.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "runtime/rendezvous/torchrun.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto error = longhaul::runtime::ParseErrorFile(text);
  if (!error.ok()) return 0;
  CHECK(error->message.size() <= 8 * 1024 && error->call_stack.size() <= 8 * 1024);
  // Refuses to write what is not UTF-8, by an exception that ends this program.
  static_cast<void>(nlohmann::json(error->message).dump());
  static_cast<void>(nlohmann::json(error->call_stack).dump());
  return 0;
}
