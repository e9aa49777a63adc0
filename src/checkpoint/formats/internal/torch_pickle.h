// Shared by pickles of torch.save and of torch.distributed.checkpoint: dtypes that pickles may
// name, sizes, and joined lists of allowed names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/pickle/pickle.h"

namespace longhaul::checkpoint::internal {

// PyTorch's names of the dtypes, for a list of names that a pickle may use.
inline constexpr PickleGlobal kDtypeGlobals[] = {
    {"torch.float32"}, {"torch.float16"},       {"torch.bfloat16"},    {"torch.float64"},
    {"torch.int64"},   {"torch.int32"},         {"torch.int16"},       {"torch.int8"},
    {"torch.uint8"},   {"torch.bool"},          {"torch.uint16"},      {"torch.uint32"},
    {"torch.uint64"},  {"torch.float8_e4m3fn"}, {"torch.float8_e5m2"},
};

// Joins a format's own names and the dtypes.
template <size_t N>
constexpr auto WithDtypes(const PickleGlobal (&own)[N]) {
  std::array<PickleGlobal, N + std::size(kDtypeGlobals)> all{};
  for (size_t i = 0; i < N; ++i) all[i] = own[i];
  for (size_t i = 0; i < std::size(kDtypeGlobals); ++i) all[N + i] = kDtypeGlobals[i];
  return all;
}

// Returns the numbers of a torch.Size, a tuple or a list: at most kMaxDims, none negative or above
// 2^46.
std::optional<std::vector<int64_t>> SizeOf(const Pickle& pickle, const PickleValue& value);

}  // namespace longhaul::checkpoint::internal
