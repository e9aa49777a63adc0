// Finds states that training must not continue from: with a parameter or moment that is NaN or
// infinite.
//
// A floating-point number is NaN or infinite exactly when all bits of its exponent are ones (IEEE
// 754; the same for BF16). So tensors are scanned as integers, at the speed of memory. A sealed
// snapshot with such a number is marked in its slot (docs/arena.md): restores never use it, and the
// writer reuses its slot first. Leaves out states that are finite but wrong, and the 8-bit floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "checkpoint/arena.h"
#include "checkpoint/state.h"

namespace longhaul::checkpoint {

// Returns whether any element is NaN or infinite; false for dtypes other than F64, F32, F16 and
// BF16. Requires whole elements.
bool HasNonFinite(std::string_view dtype, std::span<const std::byte> bytes);

// Returns the name of the first tensor with such an element. Requires spans of the plan's sizes.
std::optional<std::string> FirstNonFinite(const StatePlan& plan,
                                          std::span<const std::span<const std::byte>> tensors);

// Scans a pinned snapshot. If it isn't finite, marks it and returns the tensor's name. If it is
// marked already, returns an empty name without a scan.
Result<std::optional<std::string>> CheckAndMark(std::span<std::byte> arena, const SnapshotPin& pin);

}  // namespace longhaul::checkpoint
