// The well-known schedules, and the transfers of any order of computations.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "schedule/schedule.h"

namespace longhaul::schedule {

// The computations of each rank in their order, without transfers.
using Order = std::vector<std::vector<Action>>;

// Adds the transfers: each is sent as soon as its computation is done, together with what the next
// computation needs. A link's transfers are received in the order in which they are sent.
Schedule WithTransfers(const Shape& shape, const Order& order);

// One forward, one backward (Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training,
// ICML 2021): a rank first does as many forwards as there are ranks after it, then forwards and
// backwards in turn. It holds the activations of at most ranks - rank micro-batches.
Schedule OneForwardOneBackward(uint32_t ranks, uint32_t micro_batches);

// The same with several chunks a rank (Narayanan et al., Efficient Large-Scale Language Model
// Training on GPU Clusters, SC 2021, section 2.2.2): the bubble is divided by the chunks.
// kInvalidArgument unless the micro-batches are a multiple of the ranks.
Result<Schedule> Interleaved(uint32_t ranks, uint32_t micro_batches, uint32_t chunks);

}  // namespace longhaul::schedule
