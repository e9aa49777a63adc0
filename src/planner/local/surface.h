// A smooth surface through scattered measurements, and its uncertainty between them.
//
// Gaussian process regression (Rasmussen and Williams, MIT Press 2006, equations 2.25 and 2.26)
// with a constant mean and a Matern covariance of order 3/2,
//   c(r) = s^2 (1 + sqrt(3) r) exp(-sqrt(3) r),   r^2 = sum over axes of (distance / length)^2,
// The length of each axis is chosen by the error of leaving each point out (equation 5.12). Axes
// are meant to be logarithms of sizes, values logarithms of measured over expected time. Outside
// the box of the points the value at its nearest edge applies. Leaves out trends: the caller
// divides by a formula that has them.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace longhaul::planner {

struct SurfacePoint {
  std::array<double, 3> at{};
  double value = 0;
  double noise = 0;  // standard deviation of the measurement
};

class Surface {
 public:
  // A surface that is zero everywhere, with no certainty.
  Surface() = default;
  // Requires 1 to 3 axes and finite points. Several points at one place all count.
  Surface(std::vector<SurfacePoint> points, size_t axes);

  double Value(std::array<double, 3> at) const;
  // Standard deviation of the value at `at`; not clamped to the box.
  double Deviation(std::array<double, 3> at) const;

  bool empty() const { return points_.empty(); }
  // Root mean square of the errors when each point is predicted from the others.
  double left_out_error() const { return left_out_error_; }

 private:
  double Covariance(const std::array<double, 3>& a, const std::array<double, 3>& b) const;
  // Sets everything below for these lengths; returns the mean square left-out error.
  double Solve(const std::array<double, 3>& lengths);

  std::vector<SurfacePoint> points_;
  size_t axes_ = 1;
  std::array<double, 3> lengths_{1, 1, 1};
  std::array<double, 3> least_{};
  std::array<double, 3> most_{};
  double mean_ = 0;
  double variance_ = 0.04;
  double left_out_error_ = 0;
  std::vector<double> factor_;   // Cholesky's, lower, row by row
  std::vector<double> weights_;  // inverse covariance times the centred values
};

}  // namespace longhaul::planner
