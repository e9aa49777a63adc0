#include "planner/error_band.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "planner/framework.h"
#include "planner/time/device_matrix.h"

namespace longhaul::planner {

namespace {

constexpr uint32_t kLongTokens = 16'384;
constexpr uint32_t kSmallHidden = 2'304;
constexpr uint32_t kMostDevicesSeen = 16'384;

double WidthOf(RunKind kind) {
  switch (kind) {
    case RunKind::kDense:
      return 0.07;
    case RunKind::kShardedData:
      return 0.09;
    case RunKind::kLongContext:
      return 0.09;
    case RunKind::kExperts:
      return 0.18;
    case RunKind::kSmall:
      return 0.09;
  }
  return 0.18;
}

}  // namespace

RunKind KindOfRun(const spec::Model& model, const spec::Training& training) {
  if (model.sequence_length >= kLongTokens || training.layout.context > 2) {
    return RunKind::kLongContext;
  }
  if (model.experts) return RunKind::kExperts;
  if (model.hidden <= kSmallHidden) return RunKind::kSmall;
  return training.layout.zero_stage >= 3 ? RunKind::kShardedData : RunKind::kDense;
}

double BandWidth(const Question& question, size_t assumed) {
  const spec::Training& training = question.training;
  RunKind kind = KindOfRun(question.model, training);
  double width = WidthOf(kind);
  if (question.model.experts) width = std::max(width, WidthOf(RunKind::kExperts));
  if (!ShippedMatrix(question.cluster.device).measured) width += 0.06;
  if (!IsKnownFramework(training.software.framework)) width += 0.04;
  width += std::min(0.06, 0.004 * static_cast<double>(assumed));
  const double beyond = double(question.cluster.devices) / kMostDevicesSeen;
  if (beyond > 1) width += 0.03 * std::log2(beyond);
  return width;
}

StepBand ErrorBand(const Question& question, size_t assumed, Seconds step) {
  const double width = BandWidth(question, assumed);
  return {step * std::exp(-width), step * std::exp(width)};
}

}  // namespace longhaul::planner
