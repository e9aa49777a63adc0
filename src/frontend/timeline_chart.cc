#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "base/format.h"
#include "frontend/charts.h"
#include "frontend/svg.h"
#include "proto/fault_class.h"

namespace longhaul::frontend {
namespace {

constexpr double kWidth = 1160;
constexpr double kLeft = 110;
constexpr double kRight = 30;
constexpr double kTop = 92;
constexpr double kLane = 30;
constexpr double kLaneGap = 12;
constexpr double kRecoveryLane = 18;
constexpr double kRecoveryGap = 10;
constexpr size_t kRecoveriesShown = 12;
constexpr const char* kFaint = "#6b7280";
constexpr const char* kGrid = "#e5e7eb";
constexpr const char* kFaultColor = "#dc2626";
constexpr const char* kMemoryColor = "#0e7490";
constexpr const char* kDiskColor = "#1f2937";

enum Phase : size_t {
  kWaiting,
  kStartUp,
  kRendezvous,
  kRestoring,
  kStepping,
  kAgain,
  kDetecting,
  kRepairing,
  kDown,
  kFinishing,
  kPhases
};

struct PhaseLook {
  const char* name;
  const char* color;
};
constexpr std::array<PhaseLook, kPhases> kLooks = {{
    {"queue", "#d1d5db"},
    {"start-up", "#c4b5fd"},
    {"rendezvous", "#f9a8d4"},
    {"restore", "#fcd34d"},
    {"steps", "#86c79b"},
    {"steps done again", "#f97316"},
    {"detect, decide", "#f87171"},
    {"repair", "#fb923c"},
    {"node gone", "#4b5563"},
    {"finish", "#93c5fd"},
}};

struct Interval {
  int64_t from_ns;
  int64_t to_ns;
  Phase phase;
};

int64_t BeganAt(const proto::Fault& fault) {
  return fault.happened_at_ns() != 0 ? fault.happened_at_ns() : fault.detected_at_ns();
}

// The stages of a recovery as intervals, each from the last reached stage to its own.
std::vector<Interval> StagesOf(const proto::Fault& fault) {
  const std::pair<int64_t, Phase> ends[] = {
      {fault.detected_at_ns(), kDetecting},   {fault.decided_at_ns(), kDetecting},
      {fault.started_at_ns(), kRepairing},    {fault.rendezvous_at_ns(), kStartUp},
      {fault.restoring_at_ns(), kRendezvous}, {fault.stepping_at_ns(), kRestoring},
      {fault.new_step_at_ns(), kAgain}};
  std::vector<Interval> intervals;
  int64_t from_ns = BeganAt(fault);
  for (const auto& [to_ns, phase] : ends) {
    if (to_ns <= from_ns) continue;
    intervals.push_back({from_ns, to_ns, phase});
    from_ns = to_ns;
  }
  return intervals;
}

// The job's states, painted first; recoveries go over them.
std::vector<Interval> StatesOf(const RunHistory& history, int64_t start_ns, int64_t end_ns) {
  std::vector<Interval> intervals;
  int64_t from_ns = start_ns;
  Phase phase = kWaiting;
  const auto close = [&](int64_t to_ns) {
    if (to_ns > from_ns) intervals.push_back({from_ns, to_ns, phase});
    from_ns = std::max(from_ns, to_ns);
  };
  for (const StatePoint& point : history.states) {
    close(point.at_ns);
    switch (point.state) {
      case proto::STARTING:
        phase = kStartUp;
        break;
      case proto::RUNNING:
        phase = kStepping;
        break;
      case proto::LEAVING:
      case proto::RECOVERING:
        phase = kRepairing;
        break;
      case proto::STOPPING:
      case proto::SUCCEEDED:
      case proto::FAILED:
      case proto::STOPPED:
        phase = kFinishing;
        break;
      default:
        phase = kWaiting;
    }
  }
  close(end_ns);
  // What comes after the last of all steps is finishing.
  const uint64_t total = history.steps.empty() ? 0 : history.steps.back().step;
  if (total != 0 && !intervals.empty() && intervals.back().phase == kStepping) {
    const int64_t last_ns = history.steps.back().at_ns;
    if (last_ns > intervals.back().from_ns && last_ns < end_ns) {
      intervals.back().to_ns = last_ns;
      intervals.push_back({last_ns, end_ns, kFinishing});
    }
  }
  return intervals;
}

class Timeline {
 public:
  Timeline(const Report& report, const RunHistory& history)
      : report_(report), history_(history), nodes_(NodesOf(history)) {
    start_ns_ = report.status.submitted_at_ns();
    if (start_ns_ == 0 && !history.states.empty()) start_ns_ = history.states.front().at_ns;
    end_ns_ = std::max({report.status.ended_at_ns(), LastSeen(history), start_ns_ + 1'000'000});
    recoveries_ = std::min(report.faults.size(), kRecoveriesShown);
    lanes_bottom_ = kTop + static_cast<double>(nodes_.size()) * (kLane + kLaneGap);
  }

  std::string Draw() {
    const double height =
        lanes_bottom_ + 60 +
        (recoveries_ == 0 ? 0
                          : 60 + static_cast<double>(recoveries_) * (kRecoveryLane + kRecoveryGap));
    Svg svg(kWidth, height, "Timeline of " + report_.status.job().name());
    svg.Text(12, 30, Fit(report_.status.job().name(), 40) + ": what every node did",
             {.size = 16, .bold = true});
    DrawLegend(svg);
    DrawTime(svg);
    for (size_t lane = 0; lane < nodes_.size(); ++lane) DrawLane(svg, lane);
    DrawMarks(svg);
    if (recoveries_ > 0) DrawRecoveries(svg, lanes_bottom_ + 60);
    return svg.Take();
  }

 private:
  static std::vector<std::string> NodesOf(const RunHistory& history) {
    std::vector<std::string> nodes;
    for (const AttemptPoint& attempt : history.attempts) {
      for (const std::string& node : attempt.notification.gang()) nodes.push_back(node);
    }
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    constexpr size_t kMostLanes = 64;
    if (nodes.size() > kMostLanes) nodes.resize(kMostLanes);
    return nodes;
  }
  static int64_t LastSeen(const RunHistory& history) {
    int64_t last_ns = 0;
    if (!history.states.empty()) last_ns = history.states.back().at_ns;
    if (!history.steps.empty()) last_ns = std::max(last_ns, history.steps.back().at_ns);
    return last_ns;
  }
  double X(int64_t at_ns) const {
    const double share = static_cast<double>(std::clamp(at_ns, start_ns_, end_ns_) - start_ns_) /
                         static_cast<double>(end_ns_ - start_ns_);
    return kLeft + share * (kWidth - kLeft - kRight);
  }
  double Y(size_t lane) const { return kTop + static_cast<double>(lane) * (kLane + kLaneGap); }
  double SecondsAt(int64_t at_ns) const { return static_cast<double>(at_ns - start_ns_) * 1e-9; }

  void DrawLegend(Svg& svg) const {
    double x = 12;
    const auto advance = [&x](std::string_view text) {
      x += 30 + 6.4 * static_cast<double>(text.size());
    };
    for (const PhaseLook& look : kLooks) {
      svg.Rectangle(x, 46, 14, 14, look.color);
      svg.Text(x + 19, 57, look.name, {});
      advance(look.name);
    }
    svg.Marker(x + 7, 60, 12, kFaultColor);
    svg.Text(x + 19, 57, "fault", {});
    advance("fault");
    svg.Line(x + 4, 46, x + 4, 60, kMemoryColor, 1.5);
    svg.Circle(x + 12, 53, 3, kDiskColor);
    svg.Text(x + 21, 57, "snapshot: memory, disk", {});
  }

  void DrawTime(Svg& svg) const {
    const double total = SecondsAt(end_ns_);
    const std::vector<double> ticks = Ticks(0, total, 10);
    const double distance = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
    for (const double tick : ticks) {
      const double x = kLeft + tick / total * (kWidth - kLeft - kRight);
      svg.Line(x, kTop - 8, x, lanes_bottom_ + 8, kGrid);
      svg.Text(x, lanes_bottom_ + 22, TickText(tick, distance) + " s",
               {.size = 11, .color = kFaint, .anchor = Svg::Anchor::kMiddle});
    }
  }

  void Block(Svg& svg, size_t lane, const Interval& interval) const {
    const double x = X(interval.from_ns);
    const double width = X(interval.to_ns) - x;
    if (width <= 0) return;
    const PhaseLook& look = kLooks[interval.phase];
    svg.Rectangle(x, Y(lane), std::max(width, 0.8), kLane, look.color,
                  std::string(look.name) + ", " +
                      SecondsText(static_cast<double>(interval.to_ns - interval.from_ns) * 1e-9));
  }

  void DrawLane(Svg& svg, size_t lane) const {
    const std::string& node = nodes_[lane];
    svg.Text(kLeft - 10, Y(lane) + kLane / 2 + 4, Fit(node, 14),
             {.anchor = Svg::Anchor::kEnd, .bold = true});
    for (const Interval& interval : StatesOf(history_, start_ns_, end_ns_)) {
      Block(svg, lane, interval);
    }
    for (const FaultRow& row : report_.faults) {
      for (const Interval& stage : StagesOf(row.fault)) Block(svg, lane, stage);
      // Its own lane shows the time without the node.
      if (proto::FaultClassOf(row.fault.class_name()) == proto::FaultClass::kNode &&
          row.fault.node() == node && row.fault.started_at_ns() > BeganAt(row.fault)) {
        Block(svg, lane, {BeganAt(row.fault), row.fault.started_at_ns(), kDown});
      }
    }
  }

  void DrawMarks(Svg& svg) const {
    for (size_t i = 0; i < history_.attempts.size(); ++i) {
      const AttemptPoint& attempt = history_.attempts[i];
      const double x = X(attempt.at_ns);
      const double end =
          i + 1 < history_.attempts.size() ? X(history_.attempts[i + 1].at_ns) : kWidth - kRight;
      svg.Line(x, kTop - 8, x, lanes_bottom_ - kLaneGap, "#111827", 0.8);
      if (end - x < 54 && i + 1 < history_.attempts.size()) continue;  // no space for its name
      svg.Text(x + 3, kTop - 12, "attempt " + std::to_string(attempt.notification.attempt()),
               {.size = 11, .color = kFaint});
    }
    for (const SnapshotPoint& point : history_.snapshots) {
      const std::string what = "step " + std::to_string(point.notification.step()) + " in " +
                               Harmless(point.notification.tier());
      for (size_t lane = 0; lane < nodes_.size(); ++lane) {
        const double bottom = Y(lane) + kLane;
        if (point.notification.tier() == "disk") {
          if (lane == 0) svg.Circle(X(point.at_ns), bottom + 6, 2.6, kDiskColor, what);
        } else if (point.notification.tier() == "memory") {
          svg.Line(X(point.at_ns), bottom - 6, X(point.at_ns), bottom + 2, kMemoryColor, 1);
        }
      }
    }
    for (const FaultRow& row : report_.faults) {
      const auto found = std::find(nodes_.begin(), nodes_.end(), row.fault.node());
      const size_t lane = found == nodes_.end() ? 0 : static_cast<size_t>(found - nodes_.begin());
      if (nodes_.empty()) return;
      svg.Marker(X(BeganAt(row.fault)), Y(lane) + 4, 13, kFaultColor,
                 row.fault.what() + ": " + row.fault.action());
    }
  }

  void DrawRecoveries(Svg& svg, double top) const {
    svg.Text(12, top, "Recoveries, enlarged: from the fault to the first new step",
             {.size = 14, .bold = true});
    double longest = 0.001;
    for (size_t i = 0; i < recoveries_; ++i) {
      const auto stages = StagesOf(report_.faults[i].fault);
      if (stages.empty()) continue;
      longest = std::max(longest,
                         static_cast<double>(stages.back().to_ns - stages.front().from_ns) * 1e-9);
    }
    constexpr double kTextWidth = 330;
    const double width = kWidth - kLeft - kRight - kTextWidth;
    double y = top + 16;
    for (size_t i = 0; i < recoveries_; ++i, y += kRecoveryLane + kRecoveryGap) {
      const FaultRow& row = report_.faults[i];
      svg.Text(kLeft - 10, y + 13, "fault " + std::to_string(row.fault.number()),
               {.anchor = Svg::Anchor::kEnd});
      double end = kLeft;
      for (const Interval& stage : StagesOf(row.fault)) {
        const auto place = [&](int64_t at_ns) {
          return kLeft + static_cast<double>(at_ns - BeganAt(row.fault)) * 1e-9 / longest * width;
        };
        const PhaseLook& look = kLooks[stage.phase];
        svg.Rectangle(place(stage.from_ns), y, place(stage.to_ns) - place(stage.from_ns),
                      kRecoveryLane, look.color,
                      std::string(look.name) + ", " +
                          SecondsText(static_cast<double>(stage.to_ns - stage.from_ns) * 1e-9));
        end = place(stage.to_ns);
      }
      const std::string took =
          row.recovery_seconds.has_value() ? SecondsText(*row.recovery_seconds) : "not recovered";
      svg.Text(end + 8, y + 13, Fit(took + "  " + row.fault.what(), 52), {});
    }
  }

  const Report& report_;
  const RunHistory& history_;
  std::vector<std::string> nodes_;
  int64_t start_ns_ = 0;
  int64_t end_ns_ = 1;
  size_t recoveries_ = 0;
  double lanes_bottom_ = kTop;
};

}  // namespace

std::string TimelineChart(const Report& report, const RunHistory& history) {
  return Timeline(report, history).Draw();
}

}  // namespace longhaul::frontend
