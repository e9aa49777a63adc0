#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdio>
#include <map>
#include <span>

#include "base/text.h"
#include "base/utf8.h"
#include "profiler/rank/intervals.h"
#include "profiler/report/report.h"
#include "profiler/report/roofline.h"

namespace longhaul::profiler {
namespace {

constexpr double kWidth = 1080;
constexpr double kLeft = 70;
constexpr size_t kMaxLanes = 64;

// What the page shows apart: Spent's kinds (exposed communication is the wire alone), then waiting
// and the two kinds of bubble.
constexpr size_t kShownKinds = kSpentKinds + 3;
constexpr size_t kWaiting = kSpentKinds;
constexpr size_t kBubble = kSpentKinds + 1;
constexpr size_t kLateBubble = kSpentKinds + 2;
constexpr std::array<const char*, kShownKinds> kColours = {
    "#2f6fb0", "#5aa0d8", "#8cc3e8", "#a8d5c2", "#7a6fb8", "#b9b3dd", "#c9d6df", "#d9822b",
    "#e8c35a", "#c0392b", "#8e1b4a", "#e6e6e6", "#cfcfcf", "#f2c199", "#f7f3d6", "#1f1f1f"};

// Behind them the phases of what was computed, for the page of the pipeline.
constexpr std::array<const char*, kPhases> kPhaseColours = {"#5aa0d8", "#2e8b57", "#9bc53d",
                                                            "#7a6fb8", "#c9d6df"};
constexpr size_t kDrawnKinds = kShownKinds + kPhases;

const char* ColourOf(size_t drawn) {
  return drawn < kShownKinds ? kColours[drawn] : kPhaseColours[drawn - kShownKinds];
}

std::string ShownName(size_t kind) {
  if (kind == static_cast<size_t>(Spent::kExposed)) return "exposed communication: wire";
  if (kind == kWaiting) return "waiting for other ranks";
  if (kind == kBubble) return "pipeline bubble: by schedule";
  if (kind == kLateBubble) return "pipeline bubble: beyond it";
  return std::string(ToString(static_cast<Spent>(kind)));
}

size_t KindOf(Exposure exposure) {
  switch (exposure) {
    case Exposure::kWire:
      return static_cast<size_t>(Spent::kExposed);
    case Exposure::kWait:
      return kWaiting;
    case Exposure::kBubble:
      return kBubble;
    case Exposure::kLateBubble:
      break;
  }
  return kLateBubble;
}

std::array<double, kShownKinds> ShownTotals(const RankTotals& totals) {
  std::array<double, kShownKinds> shown = {};
  for (size_t s = 0; s < kSpentKinds; ++s) shown[s] = static_cast<double>(totals.spent_ns[s]);
  int64_t wire = 0;
  for (size_t d = 0; d < kDimensions; ++d) {
    wire += totals.wire_ns[d];
    shown[kWaiting] += static_cast<double>(totals.wait_ns[d]);
  }
  shown[static_cast<size_t>(Spent::kExposed)] = static_cast<double>(wire);
  shown[kBubble] = static_cast<double>(totals.bubble_ns);
  shown[kLateBubble] = static_cast<double>(totals.late_bubble_ns);
  return shown;
}

// For markup and numbers of bounded length: longer texts are cut at the size of the buffer.
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

// A logarithmic axis of whole decades around what is shown, from one place of the picture to
// another.
struct Axis {
  double from = 0, to = 0;
  int low = INT_MAX, high = INT_MIN;

  void Show(double value) {
    const double decade = std::log10(std::clamp(value, 1e-30, 1e30));
    low = std::min(low, static_cast<int>(std::floor(decade)));
    high = std::max(high, low + 1);
    high = std::max(high, static_cast<int>(std::ceil(decade)));
  }
  double At(double value) const {
    const double decade = std::log10(std::clamp(value, 1e-30, 1e30));
    return from + (to - from) * (std::clamp<double>(decade, low, high) - low) / (high - low);
  }
};

class Page {
 public:
  Page(const ProfiledJob& job, const Findings& findings, const ReportOptions& options)
      : job_(job),
        findings_(findings),
        options_(options),
        roofline_(RooflineOf(job, UtilizationOf(job, findings, options).device)) {
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
        "height:10px;margin:0 4px 0 "
        "0}.n{white-space:nowrap;margin-right:12px}.w{overflow-x:auto}.w td,.w "
        "th{padding:3px 5px;font-size:12px}p{"
        "margin:6px 0}</style><h1>Where the time went</h1><pre>";
    out_ += Escape(SummaryText(job_, findings_, options_)) + "</pre>";
    Tables();
    Bars();
    Timeline();
    Passes();
    StageTable();
    HeatMap();
    DrawRoofline();
    RooflineTable();
    return std::move(out_) + "</html>\n";
  }

 private:
  void Legend() {
    std::array<double, kShownKinds> sum = {};
    for (const RankTotals& totals : findings_.totals) {
      const auto shown = ShownTotals(totals);
      for (size_t k = 0; k < kShownKinds; ++k) sum[k] += shown[k];
    }
    out_ += "<p>";
    for (size_t k = 0; k < kShownKinds; ++k) {
      if (sum[k] > 0) Key(kColours[k], ShownName(k));
    }
    out_ += "</p>";
  }

  void Key(const char* colour, std::string_view name) {
    AppendFormat(&out_, "<span class=n><span class=k style=\"background:%s\"></span>%s</span> ",
                 colour, std::string(name).c_str());
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
    AppendFormat(&out_, "<text x=\"0\" y=\"%.1f\">rank %lld%s</text>",
                 static_cast<double>(lane) * height + height * 0.7, static_cast<long long>(rank),
                 stage.c_str());
  }

  // The last whole step, every rank on the common clock.
  void Timeline() {
    const auto [begin, end] = LastStep();
    if (begin >= end) return;
    AppendFormat(
        &out_,
        "<h2>The last step, %.3f ms</h2><p>A row is a rank%s, all by one clock; time goes to the "
        "right, in milliseconds.</p>",
        static_cast<double>(end - begin) / 1e6,
        findings_.pipeline.stages.size() > 1 ? " (s1: of the pipeline's second stage)" : "");
    Legend();
    Lanes(begin, end, false);
  }

  // The same, of a pipeline, by what the passes were for: its pattern of forward and backward.
  void Passes() {
    const auto [begin, end] = LastStep();
    if (begin >= end || findings_.pipeline.stages.size() < 2) return;
    out_ +=
        "<h2>The pipeline in the last step</h2><p>The same rows by what was computed: while a rank "
        "has nothing of another stage to work on, it is in a bubble. Those by schedule cannot be "
        "avoided without another schedule or more micro-batches; those beyond it can.</p><p>";
    std::array<int64_t, kPhases> computed = {};
    for (const RankSummary& rank : job_.ranks) {
      for (const Segment& segment : rank.segments) {
        if (!IsCompute(segment.spent)) continue;
        computed[static_cast<size_t>(segment.phase)] += segment.end_ns - segment.begin_ns;
      }
    }
    for (size_t p = 0; p < kPhases; ++p) {
      if (computed[p] > 0) Key(kPhaseColours[p], ToString(static_cast<Phase>(p)));
    }
    for (const size_t kind : {static_cast<size_t>(Spent::kExposed),
                              static_cast<size_t>(Spent::kHost), kWaiting, kBubble, kLateBubble}) {
      Key(kColours[kind], ShownName(kind));
    }
    out_ += "</p>";
    Lanes(begin, end, true);
  }

  Interval LastStep() const {
    int64_t begin = INT64_MAX, end = INT64_MIN;
    for (const RankSummary& rank : job_.ranks) {
      if (rank.steps.empty()) continue;
      begin = std::min(begin, rank.steps.back().begin_ns);
      end = std::max(end, rank.steps.back().end_ns);
    }
    return {begin, end};
  }

  void Lanes(int64_t begin, int64_t end, bool by_phase) {
    const double height = 16;
    const double scale = (kWidth - kLeft) / static_cast<double>(end - begin);
    const double bottom = height * static_cast<double>(lanes_.size());
    AppendFormat(&out_, "<svg width=\"%.0f\" height=\"%.0f\">", kWidth, bottom + 18);
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      Lane(lane, height);
      Strip(lanes_[lane], {begin, end}, static_cast<double>(lane) * height, height - 2, by_phase);
    }
    // Up to ten marks at round times.
    // Distances of 1, 2, 5, 10, ... units, the smallest with at most ten marks.
    double apart_ms = 1e-3;
    while (static_cast<double>(end - begin) / 1e6 / apart_ms > 10) {
      const double digit = std::round(apart_ms / std::pow(10, std::floor(std::log10(apart_ms))));
      apart_ms *= digit == 2 ? 2.5 : 2;
    }
    for (double at = 0; at * 1e6 < static_cast<double>(end - begin); at += apart_ms) {
      const double x = kLeft + at * 1e6 * scale;
      AppendFormat(
          &out_,
          "<path stroke=\"#999\" d=\"M%.1f %.0f v4\"/><text x=\"%.1f\" y=\"%.0f\"%s>%g</text>", x,
          bottom, x, bottom + 15, x > kWidth - 30 ? " text-anchor=\"end\"" : "", at);
    }
    out_ += "</svg>";
  }

  // Draws by columns of a pixel, each with the kind that has most of it: size does not grow with
  // the trace.
  void Strip(size_t rank, Interval shown, double y, double height, bool by_phase) {
    const auto [begin, end] = shown;
    const double scale = (kWidth - kLeft) / static_cast<double>(end - begin);
    const auto columns = static_cast<size_t>(kWidth - kLeft);
    std::vector<std::array<double, kDrawnKinds>> share(columns);
    const auto fill = [&](int64_t piece_begin, int64_t piece_end, size_t what) {
      const double from =
          static_cast<double>(std::max(piece_begin, shown.begin) - shown.begin) * scale;
      const double to = static_cast<double>(std::min(piece_end, shown.end) - shown.begin) * scale;
      if (to <= from) return;
      for (size_t c = static_cast<size_t>(from); c < columns && static_cast<double>(c) < to; ++c) {
        share[c][what] +=
            std::min(to, static_cast<double>(c) + 1) - std::max(from, static_cast<double>(c));
      }
    };
    for (const Segment& segment : job_.ranks[rank].segments) {
      if (segment.spent == Spent::kExposed) continue;
      fill(segment.begin_ns, segment.end_ns,
           by_phase && IsCompute(segment.spent) ? kShownKinds + static_cast<size_t>(segment.phase)
                                                : static_cast<size_t>(segment.spent));
    }
    for (const ExposedPiece& piece : findings_.exposed.pieces[rank]) {
      fill(piece.begin_ns, piece.end_ns, KindOf(piece.what));
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
        AppendFormat(&out_,
                     "<rect x=\"%.0f\" y=\"%.0f\" width=\"%zu\" height=\"%.0f\" fill=\"%s\"/>",
                     kLeft + static_cast<double>(c), y, stop - c, height,
                     ColourOf(static_cast<size_t>(which)));
      }
      c = stop;
    }
  }

  void Bars() {
    const double height = 16;
    out_ +=
        "<h2>What each rank's time went to</h2><p>A row is a rank's whole trace, sorted by kind; "
        "the "
        "share of a part shows under the pointer.</p>";
    if (AllWaitingUnknown(findings_.totals)) {
      out_ += "<p>How much of the exposed communication is waiting is unknown: " +
              WhyWaitingIsUnknown(job_) + ". All of it is shown as wire.</p>";
    }
    Legend();
    AppendFormat(&out_, "<svg width=\"%.0f\" height=\"%.0f\">", kWidth,
                 height * static_cast<double>(lanes_.size()));
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      const RankTotals& totals = findings_.totals[lanes_[lane]];
      if (totals.wall_ns <= 0) continue;
      Lane(lane, height);
      double x = kLeft;
      const auto shown = ShownTotals(totals);
      for (size_t s = 0; s < kShownKinds; ++s) {
        const double share = shown[s] / static_cast<double>(totals.wall_ns);
        if (share <= 0) continue;
        const double width = share * (kWidth - kLeft);
        AppendFormat(&out_,
                     "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\">"
                     "<title>%s %.2f %%</title></rect>",
                     x, static_cast<double>(lane) * height, width, height - 2, kColours[s],
                     ShownName(s).c_str(), share * 100);
        x += width;
      }
    }
    out_ += "</svg>";
  }

  // Each rank against the mean of all, by kind.
  void HeatMap() {
    out_ +=
        "<h2>Ranks against their mean, ms</h2><p>Over the whole trace; red is more than the mean "
        "of "
        "all "
        "ranks, blue is less. A rank that came last made others wait, as often as the column "
        "shows.</p><div "
        "class=w><table><tr><th>rank";
    std::array<double, kShownKinds> mean = {};
    for (const RankTotals& totals : findings_.totals) {
      const auto shown = ShownTotals(totals);
      for (size_t s = 0; s < kShownKinds; ++s) {
        mean[s] += shown[s] / static_cast<double>(findings_.totals.size());
      }
    }
    for (size_t s = 0; s < kShownKinds; ++s) {
      if (mean[s] > 0) out_ += "<th>" + ShownName(s);
    }
    out_ += "<th>came last";
    for (const size_t rank : lanes_) {
      AppendFormat(&out_, "<tr><td>%lld", static_cast<long long>(job_.ranks[rank].metadata.rank));
      const auto shown = ShownTotals(findings_.totals[rank]);
      for (size_t s = 0; s < kShownKinds; ++s) {
        if (mean[s] <= 0) continue;
        const double over = std::clamp(shown[s] / mean[s] - 1, -1.0, 1.0);
        AppendFormat(&out_, "<td style=\"background:rgba(%s,%.2f)\">%.2f",
                     over > 0 ? "192,57,43" : "47,111,176", std::abs(over) * 0.7, shown[s] / 1e6);
      }
      AppendFormat(&out_, "<td>%llu",
                   static_cast<unsigned long long>(findings_.totals[rank].last_arrivals));
    }
    out_ += "</table></div>";
  }

  void StageTable() {
    const Pipeline& pipeline = findings_.pipeline;
    if (pipeline.stages.size() < 2) return;
    out_ +=
        "<h2>Pipeline stages, a step</h2><table><tr><th>stage<th>ranks<th>compute<th>bubble"
        "<th>the schedule asks for<th>bubble beyond it";
    for (size_t i = 0; i < pipeline.stages.size(); ++i) {
      const Pipeline::Stage& stage = pipeline.stages[i];
      std::string ranks;
      constexpr size_t kMost = 16;
      for (size_t r = 0; r < std::min(stage.ranks.size(), kMost); ++r) {
        ranks += (r == 0 ? "" : " ") + std::to_string(stage.ranks[r]);
      }
      if (stage.ranks.size() > kMost) ranks += " and more";
      AppendFormat(&out_, "<tr><td>%zu<td>%s<td>%.3f ms<td>%.3f ms<td>%.3f ms<td>%.3f ms", i,
                   ranks.c_str(), stage.compute_s * 1e3, stage.bubble_s * 1e3, stage.due_s * 1e3,
                   stage.late_s * 1e3);
    }
    AppendFormat(
        &out_,
        "</table><p>%llu micro-batches a step, %s with %llu chunk%s of layers a stage: each stage "
        "idles %.2f slots of %.3f ms, a micro-batch's forward and backward on the mean stage.</p>",
        static_cast<unsigned long long>(pipeline.micro_batches),
        std::string(ScheduleName(pipeline)).c_str(),
        static_cast<unsigned long long>(pipeline.chunks), pipeline.chunks == 1 ? "" : "s",
        findings_.exposed.due_slots, static_cast<double>(findings_.exposed.slot_ns) / 1e6);
  }

  // Operators with FLOPs against their roofs, logarithmic both ways.
  void DrawRoofline() {
    const Roofline& roofline = roofline_;
    const double peak = roofline.flops_per_s;
    const double bandwidth = roofline.bytes_per_s;
    const bool any = std::any_of(roofline.rows.begin(), roofline.rows.end(),
                                 [](const RooflineRow& row) { return row.flops > 0; });
    if (!any || peak <= 0 || bandwidth <= 0) return;
    const double w = 720, h = 320;
    Axis x = {60, w - 40}, y = {h - 30, 20};
    x.Show(peak / bandwidth);
    y.Show(peak);
    for (const RooflineRow& row : roofline.rows) {
      if (row.flops <= 0) continue;
      x.Show(std::clamp(row.flops / row.bytes, 1e-3, 1e6));
      y.Show(std::max(row.flops / row.seconds, peak * 1e-6));
    }
    AppendFormat(&out_,
                 "<h2>Operators against the roofs of %s</h2><svg width=\"%.0f\" height=\"%.0f\">",
                 roofline.roof.c_str(), w, h);
    for (int decade = y.low; decade <= y.high; ++decade) {
      const double at = y.At(std::pow(10, decade));
      AppendFormat(&out_,
                   "<path stroke=\"#e4e4e4\" d=\"M60 %.1f H%.0f\"/><text x=\"0\" y=\"%.1f\">%g "
                   "GF/s</text>",
                   at, w - 40, at + 4, std::pow(10, decade - 9));
    }
    for (int decade = x.low; decade <= x.high; ++decade) {
      const double at = x.At(std::pow(10, decade));
      AppendFormat(&out_,
                   "<path stroke=\"#e4e4e4\" d=\"M%.1f 20 V%.0f\"/><text x=\"%.1f\" "
                   "y=\"%.0f\">%g</text>",
                   at, h - 30, at - 6, h - 16, std::pow(10, decade));
    }
    const double least = std::pow(10, x.low), most = std::pow(10, x.high);
    AppendFormat(&out_,
                 "<path fill=\"none\" stroke=\"#333\" d=\"M%.1f %.1f L%.1f %.1f L%.1f %.1f\"/>",
                 x.At(std::max(least, std::pow(10, y.low) / bandwidth)),
                 y.At(std::max(least * bandwidth, std::pow(10, y.low))), x.At(peak / bandwidth),
                 y.At(peak), x.At(most), y.At(peak));
    for (const RooflineRow& row : roofline.rows) {
      if (row.flops <= 0) continue;
      AppendFormat(
          &out_,
          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"#2f6fb0\" fill-opacity=\".55\">"
          "<title>",
          x.At(row.flops / row.bytes), y.At(row.flops / row.seconds),
          std::clamp(2 + std::log10(1 + row.seconds * 1e6), 2.0, 9.0));
      out_ += Escape(row.name + " " + row.shapes.substr(0, 120));
      AppendFormat(&out_, ": %.4g GFLOP/s</title></circle>", row.flops / row.seconds / 1e9);
    }
    AppendFormat(
        &out_,
        "<text x=\"60\" y=\"%.0f\">FLOPs a byte</text><text x=\"64\" y=\"14\">FLOP/s; roof "
        "%.4g GFLOP/s and %.4g GB/s</text></svg>",
        h - 2, peak / 1e9, bandwidth / 1e9);
  }

  // What loses most against its roof.
  void RooflineTable() {
    if (roofline_.rows.empty()) return;
    const double runs =
        static_cast<double>(std::max<size_t>(findings_.steps, 1) * job_.ranks.size());
    AppendFormat(
        &out_,
        "<h2>Operators by what they lose</h2><p>%.1f %% of the kernels' time has an operator with "
        "known shapes, and is at %.1f %% of what %s can.</p><table><tr><th>operator<th>shapes"
        "<th>calls<th>a step and rank<th>achieved<th>attainable<th>bound by<th>lost",
        roofline_.kernel_s > 0 ? 100 * roofline_.counted_s / roofline_.kernel_s : 0,
        100 * roofline_.share(), roofline_.roof.c_str());
    constexpr size_t kMost = 15;
    for (size_t i = 0; i < std::min(roofline_.rows.size(), kMost); ++i) {
      const RooflineRow& row = roofline_.rows[i];
      out_ += "<tr><td>" + Escape(row.name) + "<td>" +
              Escape(row.shapes.substr(0, std::min<size_t>(row.shapes.find('|'), 80)));
      const bool flops = row.flops > 0;
      const double amount = flops ? row.flops : row.bytes;
      AppendFormat(&out_, "<td>%llu<td>%.3f ms<td>%.4g %s<td>%.4g %s (%.0f %%)<td>%s<td>%.3f ms",
                   static_cast<unsigned long long>(row.count), row.seconds * 1e3 / runs,
                   amount / row.seconds / 1e9, flops ? "GFLOP/s" : "GB/s",
                   amount / std::max(row.attainable_s, 1e-12) / 1e9, flops ? "GFLOP/s" : "GB/s",
                   100 * row.share(), row.by_compute ? "compute" : "memory",
                   row.lost_s() * 1e3 / runs);
    }
    out_ += "</table>";
  }

  void Tables() {
    const auto& all = findings_.findings;
    const size_t faults = static_cast<size_t>(
        std::count_if(all.begin(), all.end(), [](const Finding& f) { return f.fault; }));
    if (faults > 0) {
      out_ +=
          "<h2>Faults, worst first</h2><p>What can be put right, worth 1 % of a step or more. The "
          "rest stands below them, even where it is worth more.</p>";
      Table(std::span(all).first(faults));
    }
    if (faults < all.size()) {
      out_ += faults > 0 ? "<h2>Everything else, worst first</h2>"
                         : "<h2>What is lost, worst first</h2><p>No fault costs 1 % of a step.</p>";
      out_ += "<p>What the job loses as it is planned, and smaller faults.</p>";
      Table(std::span(all).subspan(faults));
    }
    if (!all.empty()) {
      out_ +=
          "<p>Worth: by how much a step would be shorter without it, by playing the traces through "
          "once more.</p>";
    }
  }

  void Table(std::span<const Finding> findings) {
    out_ += "<table><tr><th>cause<th>where<th>worth a step<th>evidence";
    for (const Finding& f : findings) {
      AppendFormat(&out_, "<tr><td>%s<td>%s<td>%.3f ms<td>", std::string(ToString(f.cause)).c_str(),
                   Escape(f.subject).c_str(), f.seconds_per_step * 1e3);
      out_ += Escape(f.evidence);
    }
    out_ += "</table>";
  }

  const ProfiledJob& job_;
  const Findings& findings_;
  const ReportOptions& options_;
  const Roofline roofline_;
  std::vector<size_t> lanes_;
  std::string out_;
};

}  // namespace

std::string ReportHtml(const ProfiledJob& job, const Findings& findings,
                       const ReportOptions& options) {
  return Page(job, findings, options).Text();
}

}  // namespace longhaul::profiler
