// How two ranks of the built-in trainer sum: what the trainer does and the planner counts with.
#pragma once

#include <cstddef>

namespace longhaul::spec {

// Up to here two ranks send each other all that they have, one after the other, the first rank
// first: as many bytes as a ring of two sends, in a third of the messages. Larger ones go around
// a ring.
inline constexpr size_t kExchangedBytes = size_t{4} << 20;

}  // namespace longhaul::spec
