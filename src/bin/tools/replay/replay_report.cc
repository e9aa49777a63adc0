#include "bin/tools/replay/replay_report.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/text.h"
#include "frontend/svg.h"
#include "proto/json.h"

namespace longhaul::bin {
namespace {

using namespace runtime::simulation;  // NOLINT: this file prints its results

template <typename... Values>
std::string Print(const char* format, Values... values) {
  char line[400];
  std::snprintf(line, sizeof(line), format, values...);
  return line;
}

TimeParts MeanOf(const std::vector<TimeParts>& all) {
  TimeParts mean;
  for (const TimeParts& parts : all) {
    for (size_t i = 0; i < kLossParts; ++i) {
      mean.seconds[i] += parts.seconds[i] / static_cast<double>(all.size());
    }
  }
  return mean;
}

double PercentOf(const TimeParts& parts, size_t i) {
  return 100 * parts.seconds[i] / parts.Total();
}

// A system's line of the comparison.
std::string SystemLine(std::string_view name, const std::vector<TimeParts>& all) {
  std::vector<double> effective;
  for (const TimeParts& parts : all) effective.push_back(100 * parts.Effective());
  const TimeParts mean = MeanOf(all);
  std::string line =
      Print("  %-26s %8.2f %8.2f %8.2f", std::string(name).c_str(), MedianOf(effective),
            *std::min_element(effective.begin(), effective.end()),
            *std::max_element(effective.begin(), effective.end()));
  for (size_t i = 1; i < kLossParts; ++i) line += Print(" %10.3f", PercentOf(mean, i));
  return line + "\n";
}

std::string CauseTable(const std::vector<ReplayOutcome>& outcomes) {
  std::map<std::string, CauseCost> causes;
  double wall_s = 0;
  for (const ReplayOutcome& outcome : outcomes) {
    wall_s += outcome.parts.Total();
    for (const auto& [cause, cost] : outcome.result.causes) {
      causes[cause].count += cost.count;
      causes[cause].lost += cost.lost;
    }
  }
  std::vector<std::pair<std::string, CauseCost>> sorted(causes.begin(), causes.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.lost > b.second.lost; });
  std::string text =
      Print("  %-26s %10s %14s %16s\n", "cause", "failures", "s a failure", "% of the time");
  const auto seeds = static_cast<double>(outcomes.size());
  for (const auto& [cause, cost] : sorted) {
    const double lost_s = ToSeconds(cost.lost);
    text += Print(
        "  %-26s %10.1f %14.1f %16.3f\n", cause.c_str(), static_cast<double>(cost.count) / seeds,
        lost_s / static_cast<double>(std::max<uint64_t>(cost.count, 1)), 100 * lost_s / wall_s);
  }
  return text;
}

struct Bar {
  std::string label;
  double low = 0;
  double high = 0;
  std::string low_value;
  std::string high_value;
};

// One bar a constant, the longest first.
std::vector<Bar> BarsOf(const std::vector<VariantOutcome>& variants, double base) {
  std::vector<Bar> bars;
  for (size_t i = 1; i < variants.size(); ++i) {
    const double effective = 100 * MedianOf(variants[i].effective);
    if (bars.empty() || bars.back().label != variants[i].constant) {
      bars.push_back({variants[i].constant, base, base, "", ""});
    }
    Bar& bar = bars.back();
    std::string& value = effective < base ? bar.low_value : bar.high_value;
    value += (value.empty() ? "" : ", ") + variants[i].value;
    bar.low = std::min(bar.low, effective);
    bar.high = std::max(bar.high, effective);
  }
  std::stable_sort(bars.begin(), bars.end(),
                   [](const Bar& a, const Bar& b) { return a.high - a.low > b.high - b.low; });
  return bars;
}

}  // namespace

double MedianOf(std::vector<double> values) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::string ReplayRowHead() {
  return Print("%6s  %8s  %8s  %9s  %11s  %-16s  %9s  %s\n", "seed", "failures", "attempts",
               "steps", "effective", "log hash", "CPU time", "invariants");
}

std::string ReplayRow(const ReplayOutcome& outcome) {
  const SimulationResult& result = outcome.result;
  return Print("%6llu  %8llu  %8llu  %9s  %9.3f %%  %016llx  %7.1f s  %s\n",
               static_cast<unsigned long long>(outcome.seed),
               static_cast<unsigned long long>(outcome.failures),
               static_cast<unsigned long long>(result.attempts),
               WithThousands(static_cast<int64_t>(result.status.highest_step())).c_str(),
               100 * outcome.parts.Effective(), static_cast<unsigned long long>(result.log_hash),
               outcome.cpu_s,
               !result.violations.empty()               ? "VIOLATED"
               : result.status.state() == proto::FAILED ? "all hold; the job FAILED"
                                                        : "all hold");
}

std::string ReplayTables(const std::vector<ReplayOutcome>& outcomes) {
  std::vector<TimeParts> longhaul;
  std::vector<double> effective;
  for (const ReplayOutcome& outcome : outcomes) {
    longhaul.push_back(outcome.parts);
    effective.push_back(100 * outcome.parts.Effective());
  }
  std::string text = Print(
      "\nSimulated effective training time over %zu seeds: median %.2f %%, from %.2f to %.2f %%\n",
      outcomes.size(), MedianOf(effective), *std::min_element(effective.begin(), effective.end()),
      *std::max_element(effective.begin(), effective.end()));
  text += "\nSimulated loss by cause, mean over the seeds\n" + CauseTable(outcomes);
  text +=
      "\nSimulated effective time and loss by part, % of the time (the others: models of events "
      "with their documented constants)\n";
  text += Print("  %-26s %8s %8s %8s", "", "median", "least", "most");
  for (size_t i = 1; i < kLossParts; ++i) {
    text += Print(" %10s", std::string(NameOf(static_cast<LossPart>(i))).c_str());
  }
  text += "\n" + SystemLine("Longhaul (its controller)", longhaul);
  for (size_t system = 0; system < kBaselines.size(); ++system) {
    std::vector<TimeParts> all;
    for (const ReplayOutcome& outcome : outcomes) all.push_back(outcome.baselines[system]);
    text += SystemLine(kBaselines[system].name, all);
  }
  return text;
}

std::string ReplayJson(const ReplayOutcome& outcome) {
  const auto parts_json = [](const TimeParts& parts) {
    nlohmann::ordered_json json;
    json["effective"] = parts.Effective();
    for (size_t i = 0; i < kLossParts; ++i) {
      json["seconds"][std::string(NameOf(static_cast<LossPart>(i)))] = parts.seconds[i];
    }
    return json;
  };
  nlohmann::ordered_json json;
  json["simulated"] = true;
  json["seed"] = outcome.seed;
  json["failures"] = outcome.failures;
  json["attempts"] = outcome.result.attempts;
  json["job_state"] = proto::ToJson(outcome.result.status)["state"];
  json["wall_seconds"] = outcome.parts.Total();
  json["invariants_hold"] = outcome.result.violations.empty();
  json["violations"] = outcome.result.violations;
  json["log_hash"] = outcome.result.log_hash;
  json["cpu_seconds"] = outcome.cpu_s;
  json["longhaul"] = parts_json(outcome.parts);
  for (const auto& [cause, cost] : outcome.result.causes) {
    json["causes"][cause] = {{"failures", cost.count}, {"lost_seconds", ToSeconds(cost.lost)}};
  }
  for (size_t i = 0; i < kBaselines.size(); ++i) {
    json["models"][std::string(kBaselines[i].name)] = parts_json(outcome.baselines[i]);
  }
  return json.dump() + "\n";
}

std::string VariantJson(const VariantOutcome& variant) {
  nlohmann::ordered_json json;
  json["simulated"] = true;
  json["constant"] = variant.constant;
  json["value"] = variant.value;
  json["effective"] = variant.effective;
  return json.dump() + "\n";
}

std::string SensitivityTable(const std::vector<VariantOutcome>& variants) {
  const double base = 100 * MedianOf(variants.front().effective);
  std::string text = Print("  %-36s %-14s %10s %10s\n", "constant", "value", "median", "change");
  text += Print("  %-36s %-14s %10.2f\n", "(none)", "", base);
  for (size_t i = 1; i < variants.size(); ++i) {
    const double effective = 100 * MedianOf(variants[i].effective);
    text += Print("  %-36s %-14s %10.2f %+10.2f\n", variants[i].constant.c_str(),
                  variants[i].value.c_str(), effective, effective - base);
  }
  return text;
}

std::string SensitivitySvg(const std::vector<VariantOutcome>& variants, const std::string& title) {
  using frontend::Svg;
  constexpr double kLeft = 250, kWidth = 900, kRight = 60, kTop = 56, kRow = 30;
  const double base = 100 * MedianOf(variants.front().effective);
  const std::vector<Bar> bars = BarsOf(variants, base);
  double low = base - 0.1, high = base + 0.1;
  for (const Bar& bar : bars) {
    low = std::min(low, bar.low);
    high = std::max(high, bar.high);
  }
  const double margin = 0.18 * (high - low);  // for the values beside the bars
  low -= margin;
  high += margin;
  const auto x = [&](double percent) {
    return kLeft + (kWidth - kLeft - kRight) * (percent - low) / (high - low);
  };
  const double bottom = kTop + kRow * static_cast<double>(bars.size());
  Svg svg(kWidth, bottom + 36, title);
  svg.Text(12, 24, title, {.size = 14, .bold = true});
  const std::vector<double> ticks = frontend::Ticks(low, high, 6);
  for (const double tick : ticks) {
    const double distance = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
    svg.Line(x(tick), kTop - 6, x(tick), bottom, "#e5e7eb");
    svg.Text(x(tick), bottom + 20, frontend::TickText(tick, distance) + " %",
             {.anchor = Svg::Anchor::kMiddle});
  }
  double y = kTop;
  for (const Bar& bar : bars) {
    svg.Text(kLeft - 10, y + 16, bar.label, {.anchor = Svg::Anchor::kEnd});
    svg.Rectangle(x(bar.low), y + 4, x(base) - x(bar.low), kRow - 12, "#d97706");
    svg.Rectangle(x(base), y + 4, x(bar.high) - x(base), kRow - 12, "#2563eb");
    svg.Text(x(bar.low) - 4, y + 16, bar.low_value, {.size = 10, .anchor = Svg::Anchor::kEnd});
    svg.Text(x(bar.high) + 4, y + 16, bar.high_value, {.size = 10});
    y += kRow;
  }
  svg.Line(x(base), kTop - 6, x(base), bottom, "#1f2937", 1.5);
  svg.Text(x(base), kTop - 12, Print("%.2f %%", base), {.anchor = Svg::Anchor::kMiddle});
  return svg.Take();
}

}  // namespace longhaul::bin
