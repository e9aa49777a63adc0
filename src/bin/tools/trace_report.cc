#include "bin/tools/trace_report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/text.h"
#include "bin/table.h"
#include "frontend/svg.h"

namespace longhaul::bin {
namespace {

using frontend::Svg;
using scheduler::workload::SimulationResult;
using scheduler::workload::SizeClass;
using scheduler::workload::StandardSizes;
using scheduler::workload::WaitFigures;

std::string SizeText(const SizeClass& size) {
  if (size.gpus_to == 1) return "1 GPU";
  if (size.gpus_to > 100'000) return std::to_string(size.gpus_from) + "+";
  return std::to_string(size.gpus_from) + "-" + std::to_string(size.gpus_to);
}

// The classes of sizes that any job is of, by their place among the standard ones.
std::vector<size_t> SizesWithJobs(const std::vector<SimulationResult>& results) {
  std::vector<size_t> used;
  for (size_t s = 0; s < StandardSizes().size(); ++s) {
    const bool any = std::any_of(results.begin(), results.end(), [&](const SimulationResult& r) {
      return s < r.wait_by_size.size() && r.wait_by_size[s].jobs > 0;
    });
    if (any) used.push_back(s);
  }
  return used;
}

// Every number of a result, once: for CSV and JSON.
struct Column {
  const char* name;
  std::function<double(const SimulationResult&)> value;
};

std::vector<Column> Columns() {
  using R = SimulationResult;
  return {
      {"jobs", [](const R& r) { return static_cast<double>(r.jobs); }},
      {"rejected", [](const R& r) { return static_cast<double>(r.rejected); }},
      {"demand", [](const R& r) { return r.demand; }},
      {"use", [](const R& r) { return r.use; }},
      {"use_to_end", [](const R& r) { return r.use_to_end; }},
      {"makespan_h", [](const R& r) { return ToSeconds(r.makespan) / 3600; }},
      {"wait_mean_s", [](const R& r) { return r.wait.mean_s; }},
      {"wait_p50_s", [](const R& r) { return r.wait.p50_s; }},
      {"wait_p95_s", [](const R& r) { return r.wait.p95_s; }},
      {"wait_p99_s", [](const R& r) { return r.wait.p99_s; }},
      {"wait_largest_s", [](const R& r) { return r.largest_wait_s; }},
      {"slowdown_mean", [](const R& r) { return r.slowdown_mean; }},
      {"slowdown_p95", [](const R& r) { return r.slowdown_p95; }},
      {"fragmentation", [](const R& r) { return r.fragmentation; }},
      {"gangs", [](const R& r) { return static_cast<double>(r.gangs); }},
      {"leaves_over_fewest", [](const R& r) { return r.leaves_ratio; }},
      {"blocks_over_fewest", [](const R& r) { return r.blocks_ratio; }},
      {"gangs_on_more_switches", [](const R& r) { return r.spread_share; }},
      {"evictions", [](const R& r) { return static_cast<double>(r.evictions); }},
      {"moves", [](const R& r) { return static_cast<double>(r.moves); }},
      {"lost_gpu_h", [](const R& r) { return r.lost_gpu_hours; }},
      {"unfairness", [](const R& r) { return r.unfairness; }},
      {"rounds", [](const R& r) { return static_cast<double>(r.rounds); }},
      {"decisions", [](const R& r) { return static_cast<double>(r.decisions); }},
      {"cpu_s", [](const R& r) { return r.cpu_s; }},
  };
}

std::string Number(double value) {
  const bool whole = std::abs(value) < 1e15 && value == std::floor(value);
  return whole ? std::to_string(static_cast<int64_t>(value)) : Decimal(value, 6);
}

constexpr const char* kColors[] = {"#2563eb", "#0891b2", "#9ca3af", "#d97706",
                                   "#7c3aed", "#16a34a", "#dc2626"};

const char* ColorOf(size_t i) { return kColors[i % std::size(kColors)]; }

// A frame with ticks on the left and maps numbers to places.
struct Frame {
  double left = 70;
  double top = 0;
  double width = 800;
  double height = 220;

  double Y(double value, double most) const { return top + height - value / most * height; }
};

void DrawUse(Svg& svg, const Frame& frame, const std::vector<SimulationResult>& results) {
  svg.Text(frame.left, frame.top - 10, "GPUs in use, share of the cluster (simulated)",
           {.size = 13, .bold = true});
  double hours = 0;
  for (const SimulationResult& result : results) {
    if (!result.use_over_time.empty()) {
      hours = std::max(hours, result.use_over_time.back().first);
    }
  }
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const double y = frame.Y(share, 1);
    svg.Line(frame.left, y, frame.left + frame.width, y, "#e5e7eb");
    svg.Text(frame.left - 8, y + 4, Percent(share, 0), {.size = 11, .anchor = Svg::Anchor::kEnd});
  }
  if (hours <= 0) return;
  for (size_t i = results.size(); i-- > 0;) {  // the first on top
    std::vector<std::pair<double, double>> points;
    for (const auto& [at, share] : results[i].use_over_time) {
      points.emplace_back(frame.left + at / hours * frame.width, frame.Y(share, 1));
    }
    svg.Polyline(points, ColorOf(i), 1.5);
  }
  for (const double day : frontend::Ticks(0, hours / 24, 8)) {
    svg.Text(frame.left + day * 24 / hours * frame.width, frame.top + frame.height + 16,
             "day " + Decimal(day, 0), {.size = 11, .anchor = Svg::Anchor::kMiddle});
  }
}

double LastHour(const std::vector<SimulationResult>& results) {
  double hours = 0;
  for (const SimulationResult& result : results) {
    if (!result.use_over_time.empty()) {
      hours = std::max(hours, result.use_over_time.back().first);
    }
  }
  return hours;
}

void DrawDays(Svg& svg, const Frame& frame, double hours) {
  for (const double day : frontend::Ticks(0, hours / 24, 8)) {
    svg.Text(frame.left + day * 24 / hours * frame.width, frame.top + frame.height + 16,
             "day " + Decimal(day, 0), {.size = 11, .anchor = Svg::Anchor::kMiddle});
  }
}

void DrawWaiting(Svg& svg, const Frame& frame, const std::vector<SimulationResult>& results) {
  svg.Text(frame.left, frame.top - 10, "jobs that wait (simulated)", {.size = 13, .bold = true});
  double most = 1;
  for (const SimulationResult& result : results) {
    for (const auto& [at, jobs] : result.waiting_over_time) most = std::max(most, jobs);
  }
  for (const double jobs : frontend::Ticks(0, most, 4)) {
    const double y = frame.Y(jobs, most);
    svg.Line(frame.left, y, frame.left + frame.width, y, "#e5e7eb");
    svg.Text(frame.left - 8, y + 4, WithThousands(static_cast<int64_t>(jobs)),
             {.size = 11, .anchor = Svg::Anchor::kEnd});
  }
  const double hours = LastHour(results);
  if (hours <= 0) return;
  for (size_t i = results.size(); i-- > 0;) {
    std::vector<std::pair<double, double>> points;
    for (const auto& [at, jobs] : results[i].waiting_over_time) {
      points.emplace_back(frame.left + at / hours * frame.width, frame.Y(jobs, most));
    }
    svg.Polyline(points, ColorOf(i), 1.5);
  }
  DrawDays(svg, frame, hours);
}

void DrawWaits(Svg& svg, const Frame& frame, const std::vector<SimulationResult>& results) {
  svg.Text(frame.left, frame.top - 10, "95th percentile of the wait by size, hours (simulated)",
           {.size = 13, .bold = true});
  const std::vector<SizeClass> sizes = StandardSizes();
  double most = 1;
  for (const SimulationResult& result : results) {
    for (const WaitFigures& wait : result.wait_by_size) most = std::max(most, wait.p95_s / 3600);
  }
  for (const double hours : frontend::Ticks(0, most, 4)) {
    const double y = frame.Y(hours, most);
    svg.Line(frame.left, y, frame.left + frame.width, y, "#e5e7eb");
    svg.Text(frame.left - 8, y + 4, Decimal(hours, 0), {.size = 11, .anchor = Svg::Anchor::kEnd});
  }
  const std::vector<size_t> used = SizesWithJobs(results);
  const double group = frame.width / static_cast<double>(std::max<size_t>(1, used.size()));
  const double bar = group * 0.8 / static_cast<double>(std::max<size_t>(1, results.size()));
  for (size_t place = 0; place < used.size(); ++place) {
    const size_t s = used[place];
    const double x = frame.left + group * (static_cast<double>(place) + 0.1);
    for (size_t i = 0; i < results.size(); ++i) {
      const double hours = results[i].wait_by_size[s].p95_s / 3600;
      const double y = frame.Y(hours, most);
      svg.Rectangle(x + bar * static_cast<double>(i), y, bar * 0.9, frame.top + frame.height - y,
                    ColorOf(i), results[i].contender + ": " + Decimal(hours, 1) + " h");
    }
    svg.Text(x + group * 0.4, frame.top + frame.height + 16, SizeText(sizes[s]),
             {.size = 11, .anchor = Svg::Anchor::kMiddle});
  }
}

using Rows = std::vector<std::vector<std::string>>;

// A row a policy under a head.
Rows PolicyRows(const std::vector<SimulationResult>& results) {
  Rows rows = {{"policy", "use", "wait p50", "p95", "p99", "largest", "slow-down", "fragments",
                "leaves/fewest", "blocks/fewest", "more switches", "evictions", "moves",
                "lost GPU-h", "unfair", "CPU"}};
  for (const SimulationResult& r : results) {
    rows.push_back({r.contender, Percent(r.use), SecondsText(r.wait.p50_s),
                    SecondsText(r.wait.p95_s), SecondsText(r.wait.p99_s),
                    SecondsText(r.largest_wait_s), Decimal(r.slowdown_mean, 1),
                    Percent(r.fragmentation, 0), r.gangs == 0 ? "-" : Decimal(r.leaves_ratio, 3),
                    r.gangs == 0 ? "-" : Decimal(r.blocks_ratio, 3),
                    r.gangs == 0 ? "-" : Percent(r.spread_share),
                    WithThousands(static_cast<int64_t>(r.evictions)),
                    WithThousands(static_cast<int64_t>(r.moves)), Decimal(r.lost_gpu_hours, 0),
                    Percent(r.unfairness), Decimal(r.cpu_s, 1) + " s"});
  }
  return rows;
}

Rows WaitRows(const std::vector<SimulationResult>& results) {
  const std::vector<SizeClass> sizes = StandardSizes();
  const std::vector<size_t> used = SizesWithJobs(results);
  Rows rows = {{"wait p50 / p95 / p99 in hours"}};
  for (const size_t s : used) rows[0].push_back(SizeText(sizes[s]));
  for (const SimulationResult& r : results) {
    std::vector<std::string>& row = rows.emplace_back(1, r.contender);
    for (const size_t s : used) {
      const WaitFigures& wait = r.wait_by_size[s];
      row.push_back(wait.jobs == 0
                        ? "-"
                        : Decimal(wait.p50_s / 3600, 1) + " / " + Decimal(wait.p95_s / 3600, 1) +
                              " / " + Decimal(wait.p99_s / 3600, 1));
    }
  }
  return rows;
}

std::string TextOf(const Rows& rows) {
  Table table(rows[0]);
  for (size_t i = 1; i < rows.size(); ++i) table.Add(rows[i]);
  return table.Text();
}

// Notes to the tables: the jobs that a policy rejected, and the meaning of the words.
std::string Notes(const std::vector<SimulationResult>& results) {
  std::string text;
  for (const SimulationResult& r : results) {
    if (r.rejected == 0) continue;
    text += r.contender + " rejected " + WithThousands(static_cast<int64_t>(r.rejected)) + " of " +
            WithThousands(static_cast<int64_t>(r.jobs)) + " jobs; the first, " +
            Printable(r.first_rejection, 300) + "\n";
  }
  if (results.empty()) return text;
  return text + "Simulated. Demand " + Percent(results.front().demand) +
         " of capacity while jobs arrive; use is over that time. Unfair: what tenants waited for "
         "within their guarantees, of capacity. More switches: gangs on more blocks than need be, "
         "or in as few on more leaves; fewest leaves alone may cross more blocks.\n";
}

}  // namespace

std::string TraceTable(const std::vector<SimulationResult>& results) {
  const std::string notes = Notes(results);
  return TextOf(PolicyRows(results)) + "\n" + TextOf(WaitRows(results)) +
         (notes.empty() ? "" : "\n" + notes);
}

std::string TraceCsv(const std::vector<SimulationResult>& results) {
  const std::vector<Column> columns = Columns();
  const std::vector<SizeClass> sizes = StandardSizes();
  std::string csv = "policy,simulated";
  for (const Column& column : columns) csv += std::string(",") + column.name;
  for (const SizeClass& size : sizes) {
    const std::string name = std::to_string(std::max(1, size.gpus_from));
    for (const char* figure : {"jobs", "p50_s", "p95_s", "p99_s"}) {
      csv += ",from_" + name + "_gpus_" + figure;
    }
  }
  csv += "\n";
  for (const SimulationResult& r : results) {
    csv += r.contender + ",true";
    for (const Column& column : columns) csv += "," + Number(column.value(r));
    for (const WaitFigures& wait : r.wait_by_size) {
      csv += "," + std::to_string(wait.jobs) + "," + Number(wait.p50_s) + "," + Number(wait.p95_s) +
             "," + Number(wait.p99_s);
    }
    csv += "\n";
  }
  return csv;
}

std::string TraceJson(const std::vector<SimulationResult>& results) {
  nlohmann::ordered_json json;
  json["simulated"] = true;
  json["policies"] = nlohmann::ordered_json::array();
  for (const SimulationResult& r : results) {
    nlohmann::ordered_json policy;
    policy["policy"] = r.contender;
    for (const Column& column : Columns()) policy[column.name] = column.value(r);
    policy["log_hash"] = r.log_hash;
    json["policies"].push_back(policy);
  }
  return json.dump() + "\n";
}

std::string TraceSvg(const std::vector<SimulationResult>& results) {
  Svg svg(900, 910, "Simulated use and waits under several scheduling policies");
  Frame use;
  use.top = 40;
  DrawUse(svg, use, results);
  Frame waiting;
  waiting.top = 330;
  DrawWaiting(svg, waiting, results);
  Frame waits;
  waits.top = 620;
  DrawWaits(svg, waits, results);
  double x = use.left;
  for (size_t i = 0; i < results.size(); ++i) {
    svg.Rectangle(x, 880, 12, 12, ColorOf(i));
    svg.Text(x + 16, 890, results[i].contender, {.size = 11});
    x += 34 + 6.5 * static_cast<double>(results[i].contender.size());
  }
  return svg.Take();
}

std::string TraceHtml(const std::vector<SimulationResult>& results, const std::string& head) {
  const auto escaped = [](const std::string& text) {
    std::string out;
    for (const char c : text) {
      out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
    }
    return out;
  };
  const auto table = [&](const Rows& rows) {
    std::string html = "<table>\n";
    for (size_t i = 0; i < rows.size(); ++i) {
      html += "<tr>";
      for (size_t cell = 0; cell < rows[i].size(); ++cell) {
        const char* tag = i == 0 || cell == 0 ? "th" : "td";
        const std::string swatch =
            i > 0 && cell == 0 ? std::string("<i style=\"background:") + ColorOf(i - 1) + "\"></i>"
                               : "";
        html += std::string("<") + tag + ">" + swatch + escaped(rows[i][cell]) + "</" + tag + ">";
      }
      html += "</tr>\n";
    }
    return html + "</table>\n";
  };
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<title>Simulated scheduling policies</title>\n<style>body{font:14px/1.4 system-ui,"
         "sans-serif;margin:24px auto;max-width:1180px;padding:0 16px;color:#111827}"
         "table{border-collapse:collapse;font-size:12px;margin:16px 0;width:100%;"
         "font-variant-numeric:tabular-nums}th,td{padding:4px 6px;text-align:right;"
         "border-bottom:1px solid #e5e7eb}th:first-child{text-align:left;white-space:nowrap}"
         "tr:first-child th{vertical-align:bottom;color:#4b5563}i{display:inline-block;width:10px;"
         "height:10px;margin-right:6px}svg{width:100%;height:auto}p{max-width:70em}"
         ".notes{white-space:pre-line;color:#4b5563}</style></head>\n<body>\n"
         "<h1>Scheduling policies side by side (simulated)</h1>\n<p>" +
         escaped(head) + "</p>\n" + table(PolicyRows(results)) + TraceSvg(results) +
         table(WaitRows(results)) + "<p class=\"notes\">" + escaped(Notes(results)) +
         "</p>\n</body></html>\n";
}

}  // namespace longhaul::bin
