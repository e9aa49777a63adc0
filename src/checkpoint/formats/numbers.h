// The elements of a tensor as numbers: compares states and finds NaN and infinities.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace longhaul::checkpoint {

// Returns element `index` of bytes of a dtype of state.h as the nearest double. Requires a known
// dtype and an index within the bytes.
double NumberAt(std::string_view dtype, std::span<const std::byte> bytes, size_t index);

struct NonFinite {
  uint64_t nan = 0;
  uint64_t infinite = 0;
  std::optional<uint64_t> first;  // index of the first NaN or infinity
};

// Counts NaN and infinities; none for a dtype that has neither. Adds to `found`, which covers the
// `before` elements before these.
void CountNonFinite(std::string_view dtype, std::span<const std::byte> bytes, uint64_t before,
                    NonFinite& found);

}  // namespace longhaul::checkpoint
