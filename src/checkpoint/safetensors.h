// The safetensors format: tensors in a file that common tools can read.
//
//   u64 header bytes N, little-endian | N bytes of JSON, padded with spaces | data
//   {"__metadata__": {text: text}, name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0,
//   24]}}
//
// Data has no holes and is in the plan's order; the header is padded so that data starts at a
// multiple of 4 KiB. The reader is strict: it refuses any other file, of any writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/state.h"

namespace longhaul::checkpoint {

constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

using TextMap = std::map<std::string, std::string>;

// Returns the bytes before the data: the length and the JSON. Returns kResourceExhausted above the
// limit. Requires metadata in UTF-8.
Result<std::string> EncodeSafetensorsHeader(const StatePlan& plan, const TextMap& metadata);

struct SafetensorsHeader {
  StatePlan plan;                 // in the order of the data
  std::vector<uint64_t> offsets;  // of each tensor, from the file's start
  TextMap metadata;
};

// Returns the size of a file's header from its first eight bytes: what to read next. Returns
// kDataLoss when a file of `file_bytes` can't have it.
Result<uint64_t> SafetensorsHeaderBytes(std::span<const std::byte> first_eight,
                                        uint64_t file_bytes);

// Parses a header, including its length, of a file of `file_bytes`. Otherwise as ParseSafetensors.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::span<const std::byte> header,
                                                 uint64_t file_bytes);

// Parses the header of a whole file and checks that the file has exactly the header's length.
// Returns kDataLoss with the reason. Does not read the tensors' bytes.
Result<SafetensorsHeader> ParseSafetensors(std::span<const std::byte> file);

}  // namespace longhaul::checkpoint
