// A rank's training state as named boxes of global tensors, which make a checkpoint of one layout
// readable in every other (checkpoint/reshard/load_state.h).
//
// A tensor that is whole on this rank has the global name. A divided one is one box or, where
// divided in groups (queries, keys, values), one box per group, named NAME.part0, NAME.part1, ...
// The moments have the same names after "optimizer.first_moment." and "optimizer.second_moment.".
#pragma once

#include <span>
#include <vector>

#include "trainer/model/parameters.h"
#include "trainer/worker/worker_api.h"

namespace longhaul::trainer {

// The three buffers in the table's layout; the state points into them.
struct StateBuffers {
  std::span<float> weights;
  std::span<float> first_moments;
  std::span<float> second_moments;
};

// The boxes of the weights alone. Requires a buffer of table.floats().
std::vector<StateTensor> WeightBoxes(const ParameterTable& table, std::span<float> weights);

// Requires buffers of table.floats().
std::vector<StateTensor> StateBoxes(const ParameterTable& table, const StateBuffers& buffers);

}  // namespace longhaul::trainer
