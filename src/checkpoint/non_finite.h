// States that nobody should continue from: a parameter or a moment that is NaN or infinite.
//
// A floating-point number is neither exactly when its exponent isn't all ones (IEEE 754, and the
// same for BF16), so a tensor is looked through as integers, as fast as memory gives it. A sealed
// snapshot that was found so is marked in its slot (docs/arena.md): it is never chosen for a
// restore, and the writer takes its slot first. Leaves out: states that are finite and bad all the
// same, and the 8-bit floats.
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

// Whether any element of whole elements of the dtype is NaN or infinite; never for dtypes that
// aren't F64, F32, F16 or BF16.
bool HasNonFinite(std::string_view dtype, std::span<const std::byte> bytes);

// The first tensor with such an element, by name. Requires spans of the plan's sizes.
std::optional<std::string> FirstNonFinite(const StatePlan& plan,
                                          std::span<const std::span<const std::byte>> tensors);

// Looks through a pinned snapshot and marks it when it isn't finite: the tensor's name then.
// Nothing has been looked at when a mark is there already: its name is not known, an empty text.
Result<std::optional<std::string>> CheckAndMark(std::span<std::byte> arena, const SnapshotPin& pin);

}  // namespace longhaul::checkpoint
