#include <algorithm>
#include <cmath>
#include <optional>

#include "base/format.h"
#include "frontend/charts.h"
#include "frontend/svg.h"

namespace longhaul::frontend {
namespace {

constexpr double kLossWidth = 960;
constexpr double kHeight = 480;
constexpr double kLossLeft = 64;
constexpr double kLossRight = 24;
constexpr double kLossTop = 56;
constexpr double kBottom = 52;
constexpr const char* kTraining = "#2563eb";
constexpr const char* kValidation = "#d97706";
constexpr const char* kFault = "#dc2626";
constexpr const char* kLossGrid = "#e5e7eb";
constexpr const char* kLossFaint = "#6b7280";

// From (step, loss) to places in the picture.
struct Scale {
  double first_step = 0;
  double last_step = 1;
  double low = 0;
  double high = 1;

  double X(double step) const {
    return kLossLeft +
           (step - first_step) / (last_step - first_step) * (kLossWidth - kLossLeft - kLossRight);
  }
  double Y(double loss) const {
    const double share = (std::clamp(loss, low, high) - low) / (high - low);
    return kHeight - kBottom - share * (kHeight - kLossTop - kBottom);
  }
};

Scale ScaleOf(const std::vector<StepPoint>& points) {
  Scale scale;
  scale.first_step = 0;
  scale.last_step = std::max(1.0, static_cast<double>(points.back().step));
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  const auto take = [&](double loss) {
    if (!std::isfinite(loss)) return;
    low = std::min(low, loss);
    high = std::max(high, loss);
  };
  for (const StepPoint& point : points) {
    take(point.loss);
    if (point.validation_loss.has_value()) take(*point.validation_loss);
  }
  if (!(low <= high)) return scale;  // not one finite number
  const double margin = std::max((high - low) * 0.05, 1e-6 + std::abs(high) * 1e-3);
  scale.low = std::max(low - margin, low >= 0 ? 0.0 : low - margin);
  scale.high = high + margin;
  return scale;
}

void DrawAxes(Svg& svg, const Scale& scale, bool of_tokens) {
  const std::vector<double> rows = Ticks(scale.low, scale.high, 6);
  const double row_distance = rows.size() > 1 ? rows[1] - rows[0] : 1;
  for (const double loss : rows) {
    svg.Line(kLossLeft, scale.Y(loss), kLossWidth - kLossRight, scale.Y(loss), kLossGrid);
    svg.Text(kLossLeft - 8, scale.Y(loss) + 4, TickText(loss, row_distance),
             {.color = kLossFaint, .anchor = Svg::Anchor::kEnd});
  }
  for (const double step : Ticks(scale.first_step, scale.last_step, 8)) {
    svg.Line(scale.X(step), kHeight - kBottom, scale.X(step), kHeight - kBottom + 5, kLossFaint);
    svg.Text(scale.X(step), kHeight - kBottom + 20, TickText(step, 1),
             {.color = kLossFaint, .anchor = Svg::Anchor::kMiddle});
  }
  svg.Line(kLossLeft, kHeight - kBottom, kLossWidth - kLossRight, kHeight - kBottom, kLossFaint);
  svg.Text((kLossLeft + kLossWidth - kLossRight) / 2, kHeight - 12, "step",
           {.color = kLossFaint, .anchor = Svg::Anchor::kMiddle});
  svg.Text(12, kLossTop - 12, of_tokens ? "loss, nats a token" : "loss", {.color = kLossFaint});
}

void DrawLegend(Svg& svg, bool with_validation, bool with_faults) {
  double x = kLossLeft + 300;
  const auto entry = [&](const char* color, std::string_view text, bool dashed) {
    svg.Line(x, 26, x + 24, 26, color, 2.5, dashed);
    svg.Text(x + 30, 30, text, {});
    x += 60 + 7.2 * static_cast<double>(text.size());
  };
  entry(kTraining, "training", false);
  if (with_validation) entry(kValidation, "validation (held-out text)", false);
  if (with_faults) entry(kFault, "fault", true);
}

// The highest step done when a fault happened.
double StepAt(const RunHistory& history, int64_t at_ns) {
  uint64_t step = 0;
  for (const StepPoint& point : history.steps) {
    if (point.at_ns <= at_ns) step = std::max(step, point.step);
  }
  return static_cast<double>(step);
}

}  // namespace

std::string LossChart(const Report& report, const RunHistory& history) {
  Svg svg(kLossWidth, kHeight, "Loss of " + report.status.job().name());
  svg.Text(kLossLeft - 52, 30, Fit(report.status.job().name(), 40), {.size = 16, .bold = true});
  const std::vector<StepPoint> points = history.LastOfEachStep();
  if (points.empty()) {
    svg.Text(kLossWidth / 2, kHeight / 2, "no step was reported",
             {.size = 14, .color = kLossFaint, .anchor = Svg::Anchor::kMiddle});
    return svg.Take();
  }
  const Scale scale = ScaleOf(points);
  DrawAxes(svg, scale, report.status.tokens() > 0);
  for (const FaultRow& row : report.faults) {
    const proto::Fault& fault = row.fault;
    const int64_t at_ns =
        fault.happened_at_ns() != 0 ? fault.happened_at_ns() : fault.detected_at_ns();
    const double x = scale.X(std::min(StepAt(history, at_ns), scale.last_step));
    svg.Line(x, kLossTop, x, kHeight - kBottom, kFault, 1, true);
    svg.Marker(x, kLossTop + 2, 12, kFault, fault.what() + ": " + fault.action());
    svg.Text(x, kLossTop - 14, std::to_string(fault.number()),
             {.size = 11, .color = kFault, .anchor = Svg::Anchor::kMiddle});
  }
  std::vector<std::pair<double, double>> training;
  std::vector<std::pair<double, double>> validation;
  for (const StepPoint& point : points) {
    const double x = scale.X(static_cast<double>(point.step));
    if (std::isfinite(point.loss)) training.emplace_back(x, scale.Y(point.loss));
    if (point.validation_loss.has_value() && std::isfinite(*point.validation_loss)) {
      validation.emplace_back(x, scale.Y(*point.validation_loss));
    }
  }
  svg.Polyline(training, kTraining, 1.8);
  svg.Polyline(validation, kValidation, 1.8);
  for (const auto& [x, y] : validation) svg.Circle(x, y, 3.5, kValidation);
  DrawLegend(svg, !validation.empty(), !report.faults.empty());
  return svg.Take();
}

}  // namespace longhaul::frontend
