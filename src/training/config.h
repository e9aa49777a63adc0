// What the training engine must know of a model: its shape (spec/model/model.h) and the numbers
// that a shape leaves out.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "spec/model/model.h"

namespace longhaul::training {

struct ModelConfig {
  spec::Model shape;
  double norm_epsilon = 1e-5;
  double rope_theta = 10'000;       // rotary positions (Su et al., RoFormer, 2021)
  double initial_deviation = 0.02;  // of new weights
  bool exact_gelu = false;          // by the error function; else by its approximation with tanh
  // Experts: whether the probabilities of a token's chosen experts are divided by their sum, and
  // the factor of the loss that balances them (dimensions/expert.h).
  bool normalised_routing = true;
  double balance_loss = 0;
};

// kUnimplemented, with what the engine does not compute, for a shape that it cannot train: latent
// attention, sliding windows, ALiBi, dropout, exact GELU, capacity limits, routing to groups of
// experts.
Status CheckTrainable(const ModelConfig& config);

}  // namespace longhaul::training
