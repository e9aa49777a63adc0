// Adafactor (Shazeer and Stern, ICML 2018, algorithms 4 and 5): the second moment of a matrix is
// kept as a sum for each row and each column, so that its state is small.
//
//   beta = 1 - t^-0.8                               g' = scale * g
//   r_i = beta r_i + (1 - beta) mean over j of (g'_ij^2 + epsilon)
//   c_j = beta c_j + (1 - beta) mean over i of (g'_ij^2 + epsilon)
//   u_ij = g'_ij / sqrt(r_i c_j / mean(r));  u /= max(1, rms(u) / threshold)
//   w -= rate * decay * w;  w -= rate * max(least, rms(w)) * u
//
// A vector (one row) keeps the whole second moment. Needs the whole tensor: its means are over it.
// The rate is relative to the size of the weights, about 1e-2.
#pragma once

#include <cstddef>
#include <span>

#include "optimizer/step.h"

namespace longhaul::optimizer {

struct Adafactor {
  double epsilon = 1e-30;
  double least = 1e-3;  // of the size of the weights
  double threshold = 1;
};

// The number of floats of its state for a matrix.
inline size_t StateOf(const Adafactor&, size_t rows, size_t columns) {
  return rows == 1 ? columns : rows + columns;
}

// `state` is r followed by c, or v; 0 at first. Requires step.number >= 1.
void Update(const Adafactor& adafactor, const Step& step, size_t rows, size_t columns,
            std::span<float> weights, std::span<const float> gradients, std::span<float> state);

}  // namespace longhaul::optimizer
