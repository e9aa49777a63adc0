#include "frontend/plan/plan_charts.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "base/text.h"
#include "frontend/plan/plan_figures.h"
#include "frontend/svg.h"
#include "spec/cluster/device.h"

namespace longhaul::frontend {
namespace {

using planner::PassKind;
using planner::PipelineTask;
using planner::search::Plan;
using planner::search::Proposal;

constexpr double kWidth = 1040;
constexpr const char* kAxis = "#9ca3af";
constexpr const char* kGrid = "#e5e7eb";
constexpr const char* kMuted = "#4b5563";
constexpr const char* kForward = "#2563eb";
constexpr const char* kBackward = "#1e3a8a";
constexpr const char* kWeightGradient = "#0d9488";
constexpr const char* kLimit = "#dc2626";
constexpr const char* kWaiting = "#d1d5db";  // as the bubble of the steps' bars

// Maps [low, high] of figures onto pixels.
struct Scale {
  double low = 0;
  double high = 1;
  double from = 0;
  double to = 1;

  double operator()(double figure) const {
    return high > low ? from + (figure - low) / (high - low) * (to - from) : from;
  }
};

Svg::Font Small(Svg::Anchor anchor = Svg::Anchor::kStart) { return {12, kMuted, anchor, false}; }

void Legend(Svg& svg, double x, double y, std::string_view color, std::string_view text) {
  svg.Rectangle(x, y - 10, 12, 12, color);
  svg.Text(x + 17, y, text, Small());
}

void HorizontalAxis(Svg& svg, const Scale& x, double top, double bottom, std::string_view title,
                    int wanted = 8) {
  const std::vector<double> ticks = Ticks(x.low, x.high, wanted);
  const double distance = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
  for (const double tick : ticks) {
    svg.Line(x(tick), top, x(tick), bottom, kGrid);
    svg.Text(x(tick), bottom + 16, TickText(tick, distance), Small(Svg::Anchor::kMiddle));
  }
  svg.Line(x.from, bottom, x.to, bottom, kAxis);
  svg.Text((x.from + x.to) / 2, bottom + 34, title, Small(Svg::Anchor::kMiddle));
}

void VerticalAxis(Svg& svg, const Scale& y, double left, double right) {
  const std::vector<double> ticks = Ticks(y.low, y.high, 6);
  const double distance = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
  for (const double tick : ticks) {
    svg.Line(left, y(tick), right, y(tick), kGrid);
    svg.Text(left - 6, y(tick) + 4, TickText(tick, distance), Small(Svg::Anchor::kEnd));
  }
}

}  // namespace

std::string StepChart(const Plan& plan) {
  CHECK(!plan.best.empty());
  constexpr double kRow = 46;
  std::vector<const StepPart*> shown;
  double longest = 0;
  for (const Proposal& proposal : plan.best) {
    longest = std::max({longest, proposal.evaluation.step.count(), proposal.band.high.count()});
  }
  for (const StepPart& part : StepParts()) {
    for (const Proposal& proposal : plan.best) {
      if ((proposal.evaluation.breakdown.*part.member).count() < 0.002 * longest) continue;
      shown.push_back(&part);
      break;
    }
  }
  const double legend_rows = std::ceil(static_cast<double>(shown.size()) / 5);
  const double top = 12 + 20 * legend_rows;
  const double bottom = top + kRow * static_cast<double>(plan.best.size());
  Svg svg(kWidth, bottom + 44, "Where the time of a step goes, for each of the best layouts");
  for (size_t i = 0; i < shown.size(); ++i) {
    const size_t column = i % 5;
    const size_t row = i / 5;
    Legend(svg, 12 + 205 * static_cast<double>(column), 16 + 20 * static_cast<double>(row),
           shown[i]->color, shown[i]->name);
  }
  const Scale x{0, longest * 1.02, 40, kWidth - 20};
  HorizontalAxis(svg, x, top, bottom, "seconds of a step; the thin line is the error bar");
  for (size_t i = 0; i < plan.best.size(); ++i) {
    const Proposal& proposal = plan.best[i];
    const double y = top + kRow * static_cast<double>(i);
    svg.Text(12, y + 32, std::to_string(i + 1), {15, "#111827", Svg::Anchor::kStart, true});
    svg.Text(40, y + 13, LayoutLine(proposal.training), Small());
    double at = 0;
    for (const StepPart& part : StepParts()) {
      const double seconds = (proposal.evaluation.breakdown.*part.member).count();
      if (seconds <= 0) continue;
      svg.Rectangle(x(at), y + 18, std::max(0.0, x(at + seconds) - x(at)), 18, part.color,
                    std::string(part.name) + ": " + SecondsText(seconds) + ", " +
                        Percent(seconds / proposal.evaluation.step.count()));
      at += seconds;
    }
    const double middle = y + 27;
    const double low = x(proposal.band.low.count());
    const double high = x(proposal.band.high.count());
    svg.Line(low, middle, high, middle, "#111827", 1.5);
    svg.Line(low, middle - 5, low, middle + 5, "#111827", 1.5);
    svg.Line(high, middle - 5, high, middle + 5, "#111827", 1.5);
  }
  return svg.Take();
}

std::string MemoryChart(const Plan& plan) {
  CHECK(plan.timeline && !plan.best.empty());
  const auto& curves = plan.timeline->memory;
  constexpr double kTop = 30;
  constexpr double kBottom = 300;
  constexpr double kGiB = double(int64_t{1} << 30);
  const double limit = static_cast<double>(plan.job.cluster.device.memory.count()) / kGiB;
  double highest = limit;
  size_t fullest = 0;
  double most = 0;
  for (size_t i = 0; i < curves.size(); ++i) {
    for (const auto& [at, bytes] : curves[i].points) {
      if (bytes <= most) continue;
      most = bytes;
      fullest = i;
    }
  }
  highest = std::max(highest, most / kGiB);
  std::vector<size_t> shown = {0, curves.size() / 2, curves.size() - 1, fullest};
  std::sort(shown.begin(), shown.end());
  shown.erase(std::unique(shown.begin(), shown.end()), shown.end());
  Svg svg(kWidth, kBottom + 44, "Memory of a GPU over time, by pipeline stage");
  const Scale x{0, plan.timeline->seconds, 60, kWidth - 20};
  const Scale y{0, highest * 1.08, kBottom, kTop};
  VerticalAxis(svg, y, x.from, x.to);
  HorizontalAxis(svg, x, kTop, kBottom, "seconds; GiB allocated by the program");
  svg.Line(x.from, y(limit), x.to, y(limit), kLimit, 1.5, true);
  svg.Text(x.to, y(limit) - 5, "the GPU: " + Decimal(limit, 1) + " GiB",
           {12, kLimit, Svg::Anchor::kEnd, true});
  constexpr const char* kColors[] = {"#2563eb", "#d97706", "#059669", "#a855f7"};
  for (size_t i = 0; i < shown.size(); ++i) {
    std::vector<std::pair<double, double>> points;
    for (const auto& [at, bytes] : curves[shown[i]].points) {
      points.emplace_back(x(at), y(bytes / kGiB));
    }
    points.emplace_back(x(plan.timeline->seconds), points.back().second);
    svg.Polyline(points, kColors[i], 1.8);
    Legend(svg, 60 + 190 * static_cast<double>(i), 18, kColors[i],
           "stage " + std::to_string(shown[i]) + (shown[i] == fullest ? " (fullest)" : ""));
  }
  return svg.Take();
}

std::string StageChart(const Plan& plan) {
  CHECK(plan.timeline && !plan.best.empty());
  const auto& timeline = *plan.timeline;
  const size_t stages = plan.best.front().evaluation.stages.size();
  const double row = stages > 24 ? 14 : 22;
  constexpr double kTop = 34;
  const double bottom = kTop + row * static_cast<double>(stages);
  Svg svg(kWidth, bottom + 44, "What each pipeline stage does when");
  Legend(svg, 60, 18, kForward, "forward");
  Legend(svg, 160, 18, kBackward, "backward");
  const bool split = std::any_of(timeline.tasks.begin(), timeline.tasks.end(),
                                 [](const auto& t) { return t.pass == PassKind::kWeightGradient; });
  if (split) Legend(svg, 270, 18, kWeightGradient, "weight gradients");
  Legend(svg, 410, 18, kWaiting, "waiting");
  const Scale x{0, timeline.seconds, 60, kWidth - 20};
  for (size_t i = 0; i < stages; ++i) {
    const double y = kTop + row * static_cast<double>(i);
    svg.Rectangle(x.from, y + 1, x.to - x.from, row - 2, kWaiting);
    svg.Text(52, y + row - 6, std::to_string(i), Small(Svg::Anchor::kEnd));
  }
  svg.Text(8, kTop - 6, "stage", Small());
  bool numbered = false;
  for (const PipelineTask& task : timeline.tasks) {
    const char* color = task.pass == PassKind::kForward    ? kForward
                        : task.pass == PassKind::kBackward ? kBackward
                                                           : kWeightGradient;
    const double width = x(task.end_s) - x(task.start_s);
    const double y = kTop + row * task.stage;
    svg.Rectangle(x(task.start_s), y + 2, std::max(0.3, width - (width > 3 ? 0.7 : 0)), row - 4,
                  color);
    if (width > 16 && row > 18) {
      numbered = true;
      svg.Text(x(task.start_s) + width / 2, y + row - 7, std::to_string(task.micro_batch),
               {10, "#ffffff", Svg::Anchor::kMiddle, false});
    }
  }
  HorizontalAxis(
      svg, x, bottom, bottom,
      std::string("seconds") + (numbered ? "; the number is the micro-batch" : "") +
          std::string(
              timeline.micro_batches < plan.best.front().evaluation.micro_batches
                  ? "; the steady part is shortened: " + std::to_string(timeline.micro_batches) +
                        " of " + std::to_string(plan.best.front().evaluation.micro_batches) +
                        " micro-batches"
                  : ""));
  return svg.Take();
}

namespace {

// Empty, half and full GPUs from light to dark.
const char* MemoryColor(double share) {
  constexpr const char* kColors[] = {"#bae6fd", "#7dd3fc", "#38bdf8", "#0284c7", "#075985"};
  const double clamped = std::clamp(share, 0.0, 0.999);
  return kColors[static_cast<size_t>(clamped * 5)];
}

}  // namespace

std::string FrontierChart(const Plan& plan) {
  constexpr double kTop = 40;
  constexpr double kBottom = 330;
  const bool runs = plan.tokens > 0;
  Svg svg(kWidth, kBottom + 46, "Time against money: what no other layout beats");
  const auto time = [runs](const Proposal& p) {
    return runs && p.run ? p.run->days.expected : p.evaluation.step.count();
  };
  double dearest = 0;
  for (const auto& point : plan.frontier) {
    if (point.proposal.run) dearest = std::max(dearest, point.proposal.run->dollars.expected);
  }
  const bool millions = dearest >= 2e6;
  const auto money = [runs, millions](const Proposal& p) {
    return runs && p.run ? p.run->dollars.expected / (millions ? 1e6 : 1e3)
                         : p.evaluation.step.count() * p.cluster.devices / 3600;
  };
  double most_time = 0;
  double most_money = 0;
  double least_money = 1e300;
  for (const auto& point : plan.frontier) {
    most_time = std::max(most_time, time(point.proposal));
    most_money = std::max(most_money, money(point.proposal));
    least_money = std::min(least_money, money(point.proposal));
  }
  const Scale x{0, std::max(most_time, 1e-9) * 1.15, 90, kWidth - 30};
  const double span = std::max(most_money - least_money, 0.05 * most_money);
  const Scale y{std::max(0.0, least_money - 0.25 * span), most_money + 0.25 * span, kBottom, kTop};
  VerticalAxis(svg, y, x.from, x.to);
  svg.Text(8, kTop - 12,
           !runs      ? "GPU hours a step"
           : millions ? "million dollars"
                      : "thousand dollars",
           Small());
  HorizontalAxis(svg, x, kTop, kBottom, runs ? "days of the run" : "seconds of a step");
  svg.Text(kWidth - 575, 20, "memory of a GPU in use:", Small(Svg::Anchor::kEnd));
  for (int i = 0; i < 5; ++i) {
    Legend(svg, kWidth - 560 + 108 * i, 20, MemoryColor(i / 5.0 + 0.1),
           std::to_string(20 * i) + "-" + std::to_string(20 * i + 20) + " %");
  }
  std::vector<std::pair<double, double>> labels;
  for (const auto& point : plan.frontier) {
    const Proposal& p = point.proposal;
    const double px = x(time(p));
    const double py = y(money(p));
    svg.Circle(px, py, 8, MemoryColor(p.memory_share),
               LayoutLine(p.training) + " on " + std::to_string(p.cluster.devices) + " devices, " +
                   Percent(p.memory_share, 0) + " of memory");
    // A label is drawn to the right where there is space; otherwise only the tooltip has it.
    const bool room = std::none_of(labels.begin(), labels.end(), [&](const auto& label) {
      return std::abs(label.first - px) < 120 && std::abs(label.second - py) < 15;
    });
    labels.emplace_back(px, py);
    if (!room) continue;
    svg.Text(px + 13, py + 4, WithThousands(p.cluster.devices) + " GPUs", Small());
  }
  return svg.Take();
}

std::string InfluenceChart(const Plan& plan) {
  constexpr double kRow = 26;
  constexpr double kTop = 34;
  constexpr size_t kMost = 12;
  const size_t rows = std::min(kMost, plan.influences.size());
  const double bottom = kTop + kRow * static_cast<double>(rows);
  Svg svg(kWidth, bottom + 44, "What throughput would be with one input changed");
  double widest = 0.01;
  for (size_t i = 0; i < rows; ++i) {
    widest =
        std::max({widest, std::abs(plan.influences[i].low), std::abs(plan.influences[i].high)});
  }
  widest = std::min(widest, 1.0);
  Legend(svg, 330, 18, "#d97706", "the input slower, smaller or switched on");
  Legend(svg, 610, 18, "#059669", "the input faster or larger");
  const Scale x{-100 * widest * 1.25, 100 * widest * 1.25, 330, kWidth - 20};
  HorizontalAxis(svg, x, kTop, bottom,
                 "change of tokens a second, percent: left is slower training, right is faster");
  for (size_t i = 0; i < rows; ++i) {
    const auto& influence = plan.influences[i];
    const double y = kTop + kRow * static_cast<double>(i);
    svg.Text(320, y + 17, influence.what, Small(Svg::Anchor::kEnd));
    // The wider bar lies below, so that both are seen when they point the same way.
    std::pair<double, const char*> bars[] = {{influence.low, "#d97706"},
                                             {influence.high, "#059669"}};
    if (std::abs(bars[1].first) > std::abs(bars[0].first)) std::swap(bars[0], bars[1]);
    double height = 18;
    for (const auto& [effect, color] : bars) {
      const double to = x(100 * std::clamp(effect, -1.25 * widest, 1.25 * widest));
      svg.Rectangle(std::min(x(0), to), y + 4 + (18 - height) / 2, std::abs(to - x(0)), height,
                    color, influence.what + ": " + Percent(effect));
      height = 9;
    }
    const double end = std::max(std::abs(influence.low), std::abs(influence.high));
    const double widest_effect = std::abs(bars[0].first) == end ? bars[0].first : bars[1].first;
    const double at = x(100 * std::clamp(widest_effect, -1.2 * widest, 1.2 * widest));
    svg.Text(at + (widest_effect < 0 ? -5 : 5), y + 17,
             (widest_effect > 0 ? "+" : "") + Percent(widest_effect),
             Small(widest_effect < 0 ? Svg::Anchor::kEnd : Svg::Anchor::kStart));
  }
  svg.Line(x(0), kTop, x(0), bottom, "#111827", 1.2);
  return svg.Take();
}

}  // namespace longhaul::frontend
