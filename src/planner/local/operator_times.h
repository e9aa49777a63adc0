// The time of the built-in trainer's operators on one core: a formula, scaled by measurements.
//
// Each kind of figure has a formula (launches, plus work over the best measured rate), and a
// surface (local/surface.h) over the logarithm of measured over formula: the formula gives the
// growth of time with size, and the measurements give the speed of this machine for each shape:
//   matmul      t0 + 2 m n k / P                      attention  6 t0 + heads s^2 (4 d / P + e)
//   streams     t0 + rows width c                     optimizer  t0 + floats c
//   all-reduce  2 (r - 1) (a + bytes / r / B), a ring  copy, storage  t0 + bytes / B
//   runtime    a constant, by ranks
// Outside the measured sizes the ratio at the nearest edge applies.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "planner/local/device_file.h"
#include "planner/local/surface.h"

namespace longhaul::planner {

struct OperatorTime {
  double forward_s = 0;
  double backward_s = 0;

  double total() const { return forward_s + backward_s; }
};

class OperatorTimes {
 public:
  // Accepts any number of figures, also none: a missing one gets the formula's level.
  explicit OperatorTimes(std::span<const Figure> figures);

  // Requires positive sizes, as many as SizeNames(kind).
  OperatorTime Of(FigureKind kind, std::array<double, 3> sizes) const;
  // Relative standard deviation of the prediction for this size: interpolation is least certain
  // where it is largest.
  double Doubt(FigureKind kind, std::array<double, 3> sizes) const;
  // Root mean square error of predicting each figure from the others, as a share; 0 for none.
  double LeftOutError(FigureKind kind) const;

  double best_flops_per_s() const { return best_flops_per_s_; }

 private:
  OperatorTime Formula(FigureKind kind, const std::array<double, 3>& sizes) const;

  struct Level {
    Surface forward;
    Surface backward;
  };
  std::array<Level, kFigureKinds> levels_;
  std::array<double, kFigureKinds> element_s_{};  // c: of the fastest figure
  OperatorTime launch_;
  double best_flops_per_s_ = 0;
};

}  // namespace longhaul::planner
