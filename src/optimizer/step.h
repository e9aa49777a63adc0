// The arguments of a step that all optimizers have in common.
#pragma once

#include <cstdint>

namespace longhaul::optimizer {

struct Step {
  uint64_t number = 1;  // from 1
  double rate = 0;      // learning rate
  double decay = 0;     // weight decay, decoupled: w is multiplied by 1 - rate * decay first
  double scale = 1;     // of the gradients: clipping
};

}  // namespace longhaul::optimizer
