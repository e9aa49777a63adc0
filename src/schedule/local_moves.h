// Improves an order of computations by moving single ones to an earlier place of their rank, as
// long as the step does not become longer.
#pragma once

#include <cstdint>

#include "schedule/generate.h"
#include "schedule/simulate.h"

namespace longhaul::schedule {

// What an order takes; the smaller is better.
struct OrderCost {
  double makespan = 0;
  double idle = 0;  // of all ranks between their first and last computation

  friend auto operator<=>(const OrderCost&, const OrderCost&) = default;
};

// Requires an order that a schedule can have, with at most `most_activations` on each rank. Tries
// `moves` places drawn from `seed`: the same arguments give the same order.
OrderCost Improve(const Shape& shape, const Durations& durations, uint32_t most_activations,
                  uint64_t moves, uint64_t seed, Order& order);

}  // namespace longhaul::schedule
