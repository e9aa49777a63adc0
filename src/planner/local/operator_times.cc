#include "planner/local/operator_times.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace longhaul::planner {
namespace {

// Where nothing was measured: a core with AVX2 at 2-3 GHz and its caches.
constexpr double kUsualFlops = 50e9;
constexpr double kUsualLaunch = 1.5e-6;
constexpr double kUsualElement = 0.5e-9;
constexpr double kScoreSeconds = 1e-9;  // e: mask, softmax and moving of one score
constexpr double kHop = 50e-6;          // a: a message between two processes
constexpr double kHopBytesPerSecond = 2e9;
constexpr double kStorageBytesPerSecond = 5e8;
constexpr double kUsualRuntime = 5e-3;  // a step's reports, through agents and controller
constexpr double kUsualStorageLatency = 1e-3;

size_t Index(FigureKind kind) { return static_cast<size_t>(kind); }

// Sizes as axes. Operators that only count elements have few axes.
size_t AxesOf(FigureKind kind) { return std::max<size_t>(1, SizeNames(kind).size()); }

std::array<double, 3> Logarithms(const std::array<double, 3>& sizes) {
  std::array<double, 3> axes{};
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = sizes[i] > 0 ? std::log2(sizes[i]) : 0;
  return axes;
}

double Elements(const std::array<double, 3>& sizes) {
  return sizes[0] * (sizes[1] > 0 ? sizes[1] : 1);
}

double MatmulFlops(const std::array<double, 3>& sizes) {
  return 2 * sizes[0] * sizes[1] * sizes[2];
}

bool CountsElements(FigureKind kind) {
  return kind == FigureKind::kNorm || kind == FigureKind::kActivation ||
         kind == FigureKind::kResidual || kind == FigureKind::kLoss ||
         kind == FigureKind::kEmbedding || kind == FigureKind::kOptimizer;
}

}  // namespace

OperatorTimes::OperatorTimes(std::span<const Figure> figures) {
  launch_ = {kUsualLaunch, 2 * kUsualLaunch};
  element_s_.fill(kUsualElement);
  std::array<double, kFigureKinds> fastest{};
  for (const Figure& figure : figures) {
    if (figure.kind == FigureKind::kLaunch) launch_ = {figure.forward_s, figure.backward_s};
    if (figure.kind == FigureKind::kMatmul) {
      best_flops_per_s_ = std::max(best_flops_per_s_, MatmulFlops(figure.sizes) / figure.forward_s);
    }
    if (CountsElements(figure.kind)) {
      double& best = fastest[Index(figure.kind)];
      best = std::max(best, Elements(figure.sizes) / figure.forward_s);
    }
  }
  if (best_flops_per_s_ <= 0) best_flops_per_s_ = kUsualFlops;
  for (size_t i = 0; i < kFigureKinds; ++i) {
    if (fastest[i] > 0) element_s_[i] = 1 / fastest[i];
  }
  // The surfaces hold the logarithm of measured over expected time, on logarithms of the sizes: the
  // formula carries the growth over orders of magnitude, and the surface only a correction, which
  // stays constant outside the measured sizes.
  std::array<std::vector<SurfacePoint>, kFigureKinds> forward;
  std::array<std::vector<SurfacePoint>, kFigureKinds> backward;
  for (const Figure& figure : figures) {
    const OperatorTime expected = Formula(figure.kind, figure.sizes);
    const double noise = std::min(1.0, figure.spread / 1.35);  // quartiles of a normal spread
    const std::array<double, 3> at = Logarithms(figure.sizes);
    const size_t kind = Index(figure.kind);
    forward[kind].push_back({at, std::log(figure.forward_s / expected.forward_s), noise});
    if (HasBackward(figure.kind)) {
      backward[kind].push_back({at, std::log(figure.backward_s / expected.backward_s), noise});
    }
  }
  for (size_t i = 0; i < kFigureKinds; ++i) {
    levels_[i].forward = Surface(std::move(forward[i]), AxesOf(FigureKind(i)));
    levels_[i].backward = Surface(std::move(backward[i]), AxesOf(FigureKind(i)));
  }
}

// Sizes have the meaning of `SizeNames(kind)`. A backward pass is taken as twice the forward work;
// of a product these are the gradients of the input and of the weight.
OperatorTime OperatorTimes::Formula(FigureKind kind, const std::array<double, 3>& sizes) const {
  const double elements = Elements(sizes) * element_s_[Index(kind)];
  switch (kind) {
    case FigureKind::kMatmul: {
      const double work = MatmulFlops(sizes) / best_flops_per_s_;
      return {launch_.forward_s + work, launch_.backward_s + 2 * work};
    }
    case FigureKind::kAttention: {
      const double scores = sizes[0] * sizes[1] * sizes[1];
      const double work = scores * (4 * sizes[2] / best_flops_per_s_ + kScoreSeconds);
      return {6 * launch_.forward_s + work, 6 * launch_.backward_s + 2 * work};
    }
    case FigureKind::kAllReduce: {
      // A ring: n - 1 steps that reduce and n - 1 that gather, each with 1 / n of the bytes.
      const double hops = 2 * std::max(1.0, sizes[0] - 1);
      return {hops * (kHop + sizes[1] / sizes[0] / kHopBytesPerSecond), 0};
    }
    case FigureKind::kCopy:
      return {launch_.forward_s + sizes[0] * kUsualElement / 4, 0};
    case FigureKind::kStorage:
      return {kUsualStorageLatency + sizes[0] / kStorageBytesPerSecond, 0};
    case FigureKind::kLaunch:
      return launch_;
    case FigureKind::kRuntime:
      return {kUsualRuntime, 0};
    case FigureKind::kOptimizer:
      return {launch_.forward_s + elements, 0};
    default:
      return {launch_.forward_s + elements, launch_.backward_s + 2 * elements};
  }
}

OperatorTime OperatorTimes::Of(FigureKind kind, std::array<double, 3> sizes) const {
  for (size_t i = 0; i < SizeNames(kind).size(); ++i) CHECK(sizes[i] > 0);
  if (kind == FigureKind::kLaunch) return launch_;
  OperatorTime time = Formula(kind, sizes);
  const std::array<double, 3> at = Logarithms(sizes);
  const Level& level = levels_[Index(kind)];
  time.forward_s *= std::exp(level.forward.Value(at));
  time.backward_s *= std::exp(level.backward.Value(at));
  return time;
}

double OperatorTimes::Doubt(FigureKind kind, std::array<double, 3> sizes) const {
  const Level& level = levels_[Index(kind)];
  const std::array<double, 3> at = Logarithms(sizes);
  return std::max(level.forward.Deviation(at), level.backward.Deviation(at));
}

double OperatorTimes::LeftOutError(FigureKind kind) const {
  const Level& level = levels_[Index(kind)];
  return std::max(level.forward.left_out_error(), level.backward.left_out_error());
}

}  // namespace longhaul::planner
