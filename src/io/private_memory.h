// Whether a stretch of our memory is ours alone, so that a fork keeps it as it is.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::io {

// Refuses with kFailedPrecondition, naming the index, the first of `stretches` that touches a
// shared mapping or no mapping at all in `maps`, the text of /proc/PID/maps.
Status CheckPrivate(std::string_view maps, std::span<const std::span<const std::byte>> stretches);

// The same of this process.
Status CheckPrivate(std::span<const std::span<const std::byte>> stretches);

}  // namespace longhaul::io
