// Any bytes as a shard's header; what is accepted is written again to the same meaning.

#include <cstdint>
#include <string>

#include "base/check.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard.h"

using namespace longhaul;
using namespace longhaul::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const Result<uint64_t> header_bytes = SafetensorsHeaderBytes(bytes, size);
  if (!header_bytes.ok()) return 0;
  const Result<ShardHeader> shard = ParseShardHeader(bytes.first(*header_bytes), size);
  if (!shard.ok()) return 0;
  const Result<std::string> again = EncodeShardHeader(shard->id, shard->plan, shard->chunks);
  CHECK(again.ok());
  const Result<ShardHeader> second =
      ParseShardHeader(std::as_bytes(std::span(*again)), again->size() + shard->plan.total_bytes());
  CHECK(second.ok() && second->id == shard->id && second->plan == shard->plan &&
        second->chunks == shard->chunks);
  return 0;
}
