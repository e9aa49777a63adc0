// How two ranks of the built-in trainer compute a sum, for the trainer and the planner's model.
#pragma once

#include <cstddef>

namespace longhaul::spec {

// Up to this size two ranks send each other all their data, one after the other, the first rank
// first: as many bytes as in a ring of two, in a third of the messages. Larger data is sent around
// a ring.
inline constexpr size_t kExchangedBytes = size_t{4} << 20;

}  // namespace longhaul::spec
