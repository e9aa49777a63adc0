// The built-in GPT in numbers: parameters, and the work of a step.
//
// The model (GPT-2's shape: Radford and others, 2019): learned positions, pre-norm blocks of
// attention and a four times wider MLP, biases on products and norms, an output matrix of its own
// (not tied to the embedding, without bias). With V = vocabulary, s = sequence, h = hidden, L =
// layers:
//   parameters = 2 V h + s h + L (12 h^2 + 13 h) + 2 h
//   forward FLOPs a token = 2 (12 L h^2 + V h) + 2 L s h
// The last term is attention's causal half. The backward pass counts twice the forward one, and
// nothing is recomputed, so a step is three forwards: "6 N" plus attention (Narayanan and others,
// SC 2021, equation 3, without recomputation and with half of the attention square).
#pragma once

#include <cstdint>

#include "base/units.h"
#include "spec/job.h"

namespace longhaul::planner {

int64_t GptParameters(const spec::ModelSpec& model);

// Model FLOPs of one step over `sequences` sequences.
Flops GptStepFlops(const spec::ModelSpec& model, uint64_t sequences);

}  // namespace longhaul::planner
