// SOAP (Vyas et al., SOAP: Improving and Stabilizing Shampoo using Adam, 2024), for matrices: Adam
// in the basis of the eigenvectors of Shampoo's preconditioners. With g' = scale * g, in each step:
//
//   m = beta1 m + (1 - beta1) g'           M = P m Q^T, G = P g' Q^T   (rows of P, Q: eigenvectors)
//   v = beta2 v + (1 - beta2) G^2          U = (M / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) +
//   epsilon) w -= rate * decay * w;  w -= rate * P^T U Q L = beta L + (1 - beta) g' g'^T        R =
//   beta R + (1 - beta) g'^T g'
//
// After every `every`th step, P and Q are refreshed by one step of orthogonal iteration: the rows
// of P are sorted by the diagonal of P L P^T, descending, and so are the rows of v; then the rows
// of P L are made orthonormal in this order by Householder reflections in double. The same for R.
//
// The first step sets L, R, P and Q only, so that t is step.number - 1. P and Q are then the result
// of ten such iterations that begin with the unit matrix, where the authors' code calls a routine
// for eigenvectors. A dimension above `most` keeps the unit matrix. It needs the whole matrix.
#pragma once

#include <cstddef>
#include <span>

#include "optimizer/muon.h"
#include "optimizer/step.h"

namespace longhaul::optimizer {

struct Soap {
  double beta1 = 0.95;
  double beta2 = 0.95;
  double beta = 0.95;  // of L and R
  double epsilon = 1e-8;
  size_t every = 10;
  size_t most = 10'000;  // rows or columns
};

// The number of floats of its state: m, v, L, P, R and Q, in this order.
size_t StateOf(const Soap& soap, size_t rows, size_t columns);

// Requires spans of rows * columns and of StateOf, which is 0 at first, step.number >= 1 and
// soap.every >= 1.
void Update(const Soap& soap, const Step& step, size_t rows, size_t columns,
            std::span<float> weights, std::span<const float> gradients, std::span<float> state,
            const MatrixProduct& product);

}  // namespace longhaul::optimizer
