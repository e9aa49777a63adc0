// Muon (Jordan et al., 2024, https://kellerjordan.github.io/posts/muon/), for hidden matrices:
// momentum whose singular values are moved towards 1 by five Newton-Schulz iterations.
//
//   B = momentum B + (1 - momentum) g'               g' = scale * g
//   U = (1 - momentum) g' + momentum B               (Nesterov)
//   X = U / max(|U|, 1e-7), transposed if it has more rows than columns
//   five times: G = X X^T;  X = 3.4445 X + (-4.7750 G + 2.0315 G G) X
//   w -= rate * decay * w;  w -= rate * k * X
//
// The iterations do not converge: singular values end between about 0.5 and 1.5. It needs the whole
// matrix. Embeddings, the output, norms and biases get another optimizer; a fused product of
// queries, keys and values is three matrices.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "optimizer/step.h"

namespace longhaul::optimizer {

struct Muon {
  // What k is for a matrix of rows x columns.
  enum class Scaling {
    kShape,      // sqrt(max(1, rows / columns)): the original
    kLikeAdamW,  // 0.2 sqrt(max(rows, columns)): for AdamW's rate and decay (Liu et al., 2025)
  };

  double momentum = 0.95;
  Scaling scaling = Scaling::kShape;
};

// out [m, n] = a [m, k] times b [k, n], or times the transpose of b [n, k]. All are row by row, and
// none overlap.
using MatrixProduct = std::function<void(size_t m, size_t n, size_t k, const float* a,
                                         const float* b, bool transpose_b, float* out)>;

// Five iterations on a matrix [rows, columns], in place. Requires rows <= columns.
void Orthogonalise(size_t rows, size_t columns, std::span<float> matrix,
                   const MatrixProduct& product);

// Requires spans of rows * columns; `momentum` is B, 0 at first.
void Update(const Muon& muon, const Step& step, size_t rows, size_t columns,
            std::span<float> weights, std::span<const float> gradients, std::span<float> momentum,
            const MatrixProduct& product);

}  // namespace longhaul::optimizer
