#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <map>

#include "base/utf8.h"
#include "profiler/report/report.h"

namespace longhaul::profiler {
namespace {

constexpr double kWidth = 1080;
constexpr double kLeft = 70;
constexpr size_t kMaxLanes = 64;

// One colour a kind, in the order of Spent.
constexpr std::array<const char*, kSpentKinds> kColours = {
    "#2f6fb0", "#5aa0d8", "#8cc3e8", "#a8d5c2", "#7a6fb8", "#b9b3dd", "#c9d6df",
    "#d9822b", "#e8c35a", "#c0392b", "#8e1b4a", "#e6e6e6", "#cfcfcf"};

[[gnu::format(printf, 2, 3)]] void Print(std::string* out, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  *out += text;
}

std::string Escape(std::string_view raw) {
  std::string out;
  for (const char c : ToValidUtf8(raw)) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

class Page {
 public:
  Page(const Job& job, const Findings& findings, const ReportOptions& options)
      : job_(job), findings_(findings), options_(options) {
    // Worst first where there are more ranks than lanes: those that came last most often.
    for (size_t r = 0; r < job.ranks.size(); ++r) lanes_.push_back(r);
    if (lanes_.size() > kMaxLanes) {
      std::stable_sort(lanes_.begin(), lanes_.end(), [&](size_t a, size_t b) {
        return findings.totals[a].last_arrivals > findings.totals[b].last_arrivals;
      });
      lanes_.resize(kMaxLanes);
      std::sort(lanes_.begin(), lanes_.end());
    }
  }

  std::string Text() {
    out_ =
        "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><title>Longhaul profile</title>"
        "<style>body{font:14px/1.45 system-ui,sans-serif;margin:24px auto;max-width:1100px;"
        "color:#222}h1{font-size:20px}h2{font-size:16px;margin-top:28px}pre{background:#f6f6f6;"
        "padding:12px;white-space:pre-wrap}table{border-collapse:collapse}td,th{padding:3px 10px;"
        "text-align:left;border-bottom:1px solid #e4e4e4;font-variant-numeric:tabular-nums}"
        "text{font:11px system-ui,sans-serif;fill:#333}.k{display:inline-block;width:10px;"
        "height:10px;margin:0 4px 0 14px}</style><h1>Where the time went</h1><pre>";
    out_ += Escape(SummaryText(job_, findings_, options_)) + "</pre>";
    Legend();
    Timeline();
    Bars();
    HeatMap();
    Roofline();
    Table();
    return std::move(out_) + "</html>\n";
  }

 private:
  void Legend() {
    out_ += "<p>";
    for (size_t s = 0; s < kSpentKinds; ++s) {
      Print(&out_, "<span class=k style=\"background:%s\"></span>%s", kColours[s],
            std::string(ToString(static_cast<Spent>(s))).c_str());
    }
    out_ += "</p>";
  }

  void Lane(size_t lane, double height) {
    const int64_t rank = job_.ranks[lanes_[lane]].metadata.rank;
    std::string stage;
    const auto& stages = findings_.pipeline.stages;
    for (size_t i = 0; i < stages.size(); ++i) {
      if (std::count(stages[i].ranks.begin(), stages[i].ranks.end(), rank) > 0) {
        stage = ", s" + std::to_string(i);
      }
    }
    Print(&out_, "<text x=\"0\" y=\"%.1f\">rank %lld%s</text>",
          static_cast<double>(lane) * height + height * 0.7, static_cast<long long>(rank),
          stage.c_str());
  }

  // The last whole step, every rank on the common clock.
  void Timeline() {
    int64_t begin = INT64_MAX, end = INT64_MIN;
    for (const RankSummary& rank : job_.ranks) {
      if (rank.steps.empty()) continue;
      begin = std::min(begin, rank.steps.back().begin_ns);
      end = std::max(end, rank.steps.back().end_ns);
    }
    if (begin >= end) return;
    const double height = 16;
    const double scale = (kWidth - kLeft) / static_cast<double>(end - begin);
    Print(&out_,
          "<h2>The last step, %.3f ms, all ranks on one clock</h2><svg width=\"%.0f\" "
          "height=\"%.0f\">",
          static_cast<double>(end - begin) / 1e6, kWidth,
          height * static_cast<double>(lanes_.size()));
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      Lane(lane, height);
      Strip(job_.ranks[lanes_[lane]], begin, end, scale, static_cast<double>(lane) * height,
            height - 2);
    }
    out_ += "</svg>";
  }

  // Draws by columns of a pixel, each with the kind that has most of it: size does not grow with
  // the trace.
  void Strip(const RankSummary& rank, int64_t begin, int64_t end, double scale, double y,
             double height) {
    const auto columns = static_cast<size_t>(kWidth - kLeft);
    std::vector<std::array<double, kSpentKinds>> share(columns);
    for (const Segment& segment : rank.segments) {
      const double from = static_cast<double>(std::max(segment.begin_ns, begin) - begin) * scale;
      const double to = static_cast<double>(std::min(segment.end_ns, end) - begin) * scale;
      if (to <= from) continue;
      for (size_t c = static_cast<size_t>(from); c < columns && static_cast<double>(c) < to; ++c) {
        share[c][static_cast<size_t>(segment.spent)] +=
            std::min(to, static_cast<double>(c) + 1) - std::max(from, static_cast<double>(c));
      }
    }
    const auto kind = [&share](size_t c) {
      const auto most = std::max_element(share[c].begin(), share[c].end());
      return *most > 0 ? static_cast<int>(most - share[c].begin()) : -1;
    };
    for (size_t c = 0; c < columns;) {
      const int which = kind(c);
      size_t stop = c + 1;
      while (stop < columns && kind(stop) == which) ++stop;
      if (which >= 0) {
        Print(&out_, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%zu\" height=\"%.0f\" fill=\"%s\"/>",
              kLeft + static_cast<double>(c), y, stop - c, height,
              kColours[static_cast<size_t>(which)]);
      }
      c = stop;
    }
  }

  void Bars() {
    const double height = 16;
    Print(&out_, "<h2>Time of each rank by kind</h2><svg width=\"%.0f\" height=\"%.0f\">", kWidth,
          height * static_cast<double>(lanes_.size()));
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      const RankTotals& totals = findings_.totals[lanes_[lane]];
      if (totals.wall_ns <= 0) continue;
      Lane(lane, height);
      double x = kLeft;
      for (size_t s = 0; s < kSpentKinds; ++s) {
        const double share =
            static_cast<double>(totals.spent_ns[s]) / static_cast<double>(totals.wall_ns);
        const double width = share * (kWidth - kLeft);
        Print(&out_,
              "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\">"
              "<title>%s %.2f %%</title></rect>",
              x, static_cast<double>(lane) * height, width, height - 2, kColours[s],
              std::string(ToString(static_cast<Spent>(s))).c_str(), share * 100);
        x += width;
      }
    }
    out_ += "</svg>";
  }

  // Each rank against the mean of all, by kind.
  void HeatMap() {
    out_ += "<h2>Ranks against their mean</h2><table><tr><th>rank";
    std::array<double, kSpentKinds> mean = {};
    for (const RankTotals& totals : findings_.totals) {
      for (size_t s = 0; s < kSpentKinds; ++s) {
        mean[s] +=
            static_cast<double>(totals.spent_ns[s]) / static_cast<double>(findings_.totals.size());
      }
    }
    for (size_t s = 0; s < kSpentKinds; ++s) {
      if (mean[s] > 0) out_ += "<th>" + std::string(ToString(static_cast<Spent>(s)));
    }
    out_ += "<th>came last";
    for (const size_t rank : lanes_) {
      Print(&out_, "<tr><td>%lld", static_cast<long long>(job_.ranks[rank].metadata.rank));
      for (size_t s = 0; s < kSpentKinds; ++s) {
        if (mean[s] <= 0) continue;
        const double ns = static_cast<double>(findings_.totals[rank].spent_ns[s]);
        const double over = std::clamp(ns / mean[s] - 1, -1.0, 1.0);
        Print(&out_, "<td style=\"background:rgba(%s,%.2f)\">%.2f ms",
              over > 0 ? "192,57,43" : "47,111,176", std::abs(over) * 0.7, ns / 1e6);
      }
      Print(&out_, "<td>%llu",
            static_cast<unsigned long long>(findings_.totals[rank].last_arrivals));
    }
    out_ += "</table>";
  }

  // Operators with known work against the card's roofs, logarithmic both ways.
  void Roofline() {
    const Utilization use = UtilizationOf(job_, findings_, options_);
    if (!use.device.has_value()) return;
    std::map<std::pair<std::string, std::string>, OperatorTotal> operators;
    for (const RankSummary& rank : job_.ranks) {
      for (const OperatorTotal& op : rank.operators) {
        if (op.flops <= 0 || op.bytes <= 0 || op.total_ns <= 0) continue;
        OperatorTotal& total = operators[{op.name, op.shapes}];
        total.total_ns += op.total_ns;
        total.flops += op.flops;
        total.bytes += op.bytes;
      }
    }
    if (operators.empty()) return;
    const double peak = use.device->half.count();
    const double bandwidth = use.device->memory_bandwidth.count();
    const double w = 700, h = 320;
    const auto x = [&](double intensity) {
      return 60 + (w - 80) * (std::log10(std::clamp(intensity, 0.1, 1e4)) + 1) / 5;
    };
    const auto y = [&](double rate) {
      return h - 30 -
             (h - 50) *
                 (std::log10(std::clamp(rate, peak * 1e-5, peak * 1.5)) - std::log10(peak * 1e-5)) /
                 5.2;
    };
    Print(&out_,
          "<h2>Operators against the roofs of %s</h2><svg width=\"%.0f\" height=\"%.0f\">"
          "<path fill=\"none\" stroke=\"#333\" d=\"M%.1f %.1f L%.1f %.1f L%.1f %.1f\"/>",
          use.device->name.c_str(), w, h, x(0.1), y(0.1 * bandwidth), x(peak / bandwidth), y(peak),
          x(1e4), y(peak));
    for (const auto& [key, op] : operators) {
      const double seconds = static_cast<double>(op.total_ns) * 1e-9;
      Print(&out_,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"#2f6fb0\" fill-opacity=\".55\">"
            "<title>",
            x(op.flops / op.bytes), y(op.flops / seconds),
            std::clamp(2 + std::log10(1 + seconds * 1e6), 2.0, 9.0));
      out_ += Escape(key.first + " " + key.second.substr(0, 120));
      Print(&out_, ": %.2f TFLOP/s</title></circle>", op.flops / seconds / 1e12);
    }
    Print(&out_,
          "<text x=\"60\" y=\"%.0f\">FLOPs a byte, 0.1 to 10,000</text><text x=\"64\" "
          "y=\"14\">FLOP/s, roof %.0f TFLOP/s and %.2f TB/s</text></svg>",
          h - 8, peak / 1e12, bandwidth / 1e12);
  }

  void Table() {
    out_ += "<h2>Findings</h2><table><tr><th>cause<th>where<th>worth a step<th>evidence";
    for (const Finding& f : findings_.findings) {
      Print(&out_, "<tr><td>%s<td>%s<td>%.3f ms<td>", std::string(ToString(f.cause)).c_str(),
            Escape(f.subject).c_str(), f.seconds_per_step * 1e3);
      out_ += Escape(f.evidence);
    }
    out_ += "</table>";
  }

  const Job& job_;
  const Findings& findings_;
  const ReportOptions& options_;
  std::vector<size_t> lanes_;
  std::string out_;
};

}  // namespace

std::string ReportHtml(const Job& job, const Findings& findings, const ReportOptions& options) {
  return Page(job, findings, options).Text();
}

}  // namespace longhaul::profiler
