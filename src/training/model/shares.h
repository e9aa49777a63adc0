// A rank's share of a parameter, as tensors.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "training/parameters.h"

namespace longhaul::training {

// The share of the whole tensor, as a view.
at::Tensor ShareOf(const at::Tensor& whole, const Parameter& parameter);

// Fills a share, [count], with the initial values by the seed: those of its elements' indices in
// the whole parameter, which has at most three dimensions.
void FillShare(const Parameter& parameter, uint64_t seed, at::Tensor to);

// "attention.query.weight" of "model.layers.0.attention.query.weight".
std::string NameInLayer(const Parameter& parameter);

}  // namespace longhaul::training
