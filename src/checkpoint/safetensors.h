// Tensors in a file that anybody can read: the safetensors layout.
//
//   u64 header bytes N, little-endian | N bytes of JSON, padded with spaces | data
//   {"__metadata__": {text: text}, name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0,
//   24]}}
//
// Data lies without holes in the plan's order; we pad the header so that it starts at a multiple of
// 4 KiB. The reader is strict: what is not exactly this is refused, whoever wrote it.
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

// What stands before the data: the length and the JSON. kResourceExhausted above the limit.
// Requires metadata in UTF-8.
Result<std::string> EncodeSafetensorsHeader(const StatePlan& plan, const TextMap& metadata);

struct SafetensorsHeader {
  StatePlan plan;                 // in the order of the data
  std::vector<uint64_t> offsets;  // of each tensor, from the file's start
  TextMap metadata;
};

// How many bytes the header of a file takes, from its first eight: what to read next. kDataLoss
// when a file of `file_bytes` can't have it.
Result<uint64_t> SafetensorsHeaderBytes(std::span<const std::byte> first_eight,
                                        uint64_t file_bytes);

// Reads a header, the length included, of a file of `file_bytes`. As ParseSafetensors.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::span<const std::byte> header,
                                                 uint64_t file_bytes);

// Reads the header of a whole file and checks that the file is exactly as long as it says. Refuses
// with kDataLoss and the reason. The tensors' bytes aren't looked at.
Result<SafetensorsHeader> ParseSafetensors(std::span<const std::byte> file);

}  // namespace longhaul::checkpoint
