// Finds a schedule for given durations and a limit of memory, by list scheduling: a rank that is
// idle does what is ready, backwards before forwards, and the gradients of weights when there is
// nothing else or when memory is full. With the memory of one forward, one backward it gives the
// bubbles of ZB-1P, with twice that memory those of ZB-2P (Qi et al., ICLR 2024), and with two
// chunks in a V those of the V-shaped schedules (Qi et al., NeurIPS 2024) or close to them.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "schedule/schedule.h"
#include "schedule/simulate.h"

namespace longhaul::schedule {

struct SearchOptions {
  Durations durations;
  // The most activations of a rank, in chunks of micro-batches, from F to W.
  uint32_t most_activations = 1;
};

// The best of several orders of priority: the shortest, and of equal ones the one with the least
// idle time within a rank. kInvalidArgument if the limit is below the chunks of a rank.
Result<Schedule> Search(const Shape& shape, const SearchOptions& options);

}  // namespace longhaul::schedule
