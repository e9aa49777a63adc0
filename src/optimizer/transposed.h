// The transpose of a matrix, in tiles of a cache line's floats.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace longhaul::optimizer {

inline std::vector<float> Transposed(size_t rows, size_t columns, std::span<const float> matrix) {
  constexpr size_t kTile = 16;
  std::vector<float> transposed(matrix.size());
  for (size_t top = 0; top < rows; top += kTile) {
    for (size_t left = 0; left < columns; left += kTile) {
      for (size_t i = top; i < std::min(top + kTile, rows); ++i) {
        for (size_t j = left; j < std::min(left + kTile, columns); ++j) {
          transposed[j * rows + i] = matrix[i * columns + j];
        }
      }
    }
  }
  return transposed;
}

}  // namespace longhaul::optimizer
