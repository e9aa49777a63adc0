#include "planner/local/surface.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace longhaul::planner {
namespace {

// Even a repeat on an idle machine differs by this.
constexpr double kLeastNoise = 0.02;
constexpr double kLengths[] = {1.5, 3, 6, 12};
constexpr double kLeastVariance = 0.0025;

// Solves lower * x = b in place.
void Forward(const std::vector<double>& lower, size_t n, std::vector<double>& b) {
  for (size_t i = 0; i < n; ++i) {
    double sum = b[i];
    for (size_t j = 0; j < i; ++j) sum -= lower[i * n + j] * b[j];
    b[i] = sum / lower[i * n + i];
  }
}

// Solves transpose(lower) * x = b in place.
void Backward(const std::vector<double>& lower, size_t n, std::vector<double>& b) {
  for (size_t i = n; i-- > 0;) {
    double sum = b[i];
    for (size_t j = i + 1; j < n; ++j) sum -= lower[j * n + i] * b[j];
    b[i] = sum / lower[i * n + i];
  }
}

}  // namespace

Surface::Surface(std::vector<SurfacePoint> points, size_t axes)
    : points_(std::move(points)), axes_(axes) {
  CHECK(axes_ >= 1 && axes_ <= 3);
  if (points_.empty()) return;
  least_ = most_ = points_[0].at;
  double sum = 0;
  for (const SurfacePoint& point : points_) {
    CHECK(std::isfinite(point.value));
    sum += point.value;
    for (size_t axis = 0; axis < axes_; ++axis) {
      least_[axis] = std::min(least_[axis], point.at[axis]);
      most_[axis] = std::max(most_[axis], point.at[axis]);
    }
  }
  mean_ = sum / static_cast<double>(points_.size());
  double squares = 0;
  for (const SurfacePoint& point : points_) squares += std::pow(point.value - mean_, 2);
  variance_ = std::max(kLeastVariance, squares / static_cast<double>(points_.size()));

  std::array<double, 3> best = {6, 6, 6};
  double least_error = INFINITY;
  const size_t choices = std::size(kLengths);
  const size_t combinations = axes_ == 1   ? choices
                              : axes_ == 2 ? choices * choices
                                           : choices * choices * choices;
  for (size_t i = 0; i < combinations; ++i) {
    const std::array<double, 3> lengths = {kLengths[i % choices], kLengths[i / choices % choices],
                                           kLengths[i / choices / choices % choices]};
    const double error = Solve(lengths);
    if (error < least_error) {
      least_error = error;
      best = lengths;
    }
  }
  left_out_error_ = std::sqrt(Solve(best));
}

double Surface::Covariance(const std::array<double, 3>& a, const std::array<double, 3>& b) const {
  double squares = 0;
  for (size_t axis = 0; axis < axes_; ++axis) {
    squares += std::pow((a[axis] - b[axis]) / lengths_[axis], 2);
  }
  const double r = std::sqrt(3 * squares);
  return variance_ * (1 + r) * std::exp(-r);
}

double Surface::Solve(const std::array<double, 3>& lengths) {
  lengths_ = lengths;
  const size_t n = points_.size();
  factor_.assign(n * n, 0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = Covariance(points_[i].at, points_[j].at);
      if (i == j) sum += std::pow(std::max(points_[i].noise, kLeastNoise), 2);
      for (size_t k = 0; k < j; ++k) sum -= factor_[i * n + k] * factor_[j * n + k];
      factor_[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / factor_[j * n + j];
    }
  }
  weights_.resize(n);
  for (size_t i = 0; i < n; ++i) weights_[i] = points_[i].value - mean_;
  Forward(factor_, n, weights_);
  Backward(factor_, n, weights_);
  // The error of leaving point i out is weight over the diagonal of the inverse (equation 5.12).
  double squares = 0;
  std::vector<double> column(n);
  for (size_t i = 0; i < n; ++i) {
    std::fill(column.begin(), column.end(), 0.0);
    column[i] = 1;
    Forward(factor_, n, column);
    double diagonal = 0;
    for (const double value : column) diagonal += value * value;
    squares += std::pow(weights_[i] / diagonal, 2);
  }
  return squares / static_cast<double>(n);
}

double Surface::Value(std::array<double, 3> at) const {
  if (points_.empty()) return 0;
  for (size_t axis = 0; axis < axes_; ++axis) {
    at[axis] = std::clamp(at[axis], least_[axis], most_[axis]);
  }
  double sum = mean_;
  for (size_t i = 0; i < points_.size(); ++i) {
    sum += weights_[i] * Covariance(at, points_[i].at);
  }
  return sum;
}

double Surface::Deviation(std::array<double, 3> at) const {
  const size_t n = points_.size();
  std::vector<double> column(n);
  for (size_t i = 0; i < n; ++i) column[i] = Covariance(at, points_[i].at);
  Forward(factor_, n, column);
  double left = variance_;
  for (const double value : column) left -= value * value;
  return std::sqrt(std::max(left, 0.0));
}

}  // namespace longhaul::planner
