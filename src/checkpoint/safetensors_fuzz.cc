// Any bytes as a safetensors file; what is accepted lies within the file and is written again.

#include <cstdint>
#include <string>

#include "base/check.h"
#include "checkpoint/safetensors.h"

using namespace longhaul;
using namespace longhaul::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const Result<SafetensorsHeader> header = ParseSafetensors(file);
  if (!header.ok()) return 0;
  for (size_t i = 0; i < header->plan.size(); ++i) {
    CHECK(header->offsets[i] + header->plan.bytes(i) <= size);
  }
  const Result<std::string> again = EncodeSafetensorsHeader(header->plan, header->metadata);
  CHECK(again.ok());
  const std::string whole = *again + std::string(header->plan.total_bytes(), 'x');
  const Result<SafetensorsHeader> second = ParseSafetensors(std::as_bytes(std::span(whole)));
  CHECK(second.ok() && second->plan == header->plan && second->metadata == header->metadata);
  return 0;
}
