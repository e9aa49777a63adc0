#include "frontend/plan/plan_page.h"

#include <algorithm>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "frontend/plan/plan_charts.h"
#include "frontend/plan/plan_figures.h"
#include "planner/search/obstacle.h"
#include "planner/search/settings.h"
#include "planner/search/why_not.h"

namespace longhaul::frontend {
namespace {

using planner::search::Plan;
using planner::search::Proposal;
using planner::search::Rule;

constexpr const char* kStyle = R"(
body { font: 15px/1.5 system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif; color: #1f2937;
       max-width: 1080px; margin: 24px auto; padding: 0 20px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 34px 0 4px; }
p { margin: 6px 0; } .muted { color: #4b5563; }
.verdict { display: flex; flex-wrap: wrap; gap: 12px; margin: 18px 0; }
.tile { border: 1px solid #d1d5db; border-radius: 8px; padding: 10px 14px; min-width: 130px; }
.tile b { display: block; font-size: 21px; } .tile span { color: #4b5563; font-size: 13px; }
code { background: #f3f4f6; padding: 2px 5px; border-radius: 4px; overflow-wrap: anywhere; }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
th, td { text-align: left; padding: 5px 8px; border-bottom: 1px solid #e5e7eb;
         vertical-align: top; }
td.n, th.n { text-align: right; white-space: nowrap; }
svg { max-width: 100%; height: auto; display: block; }
.wide { overflow-x: auto; }
section, tr { break-inside: avoid; } h2, h2 + p { break-after: avoid; }
@media screen and (max-width: 760px) { .wide svg, .wide table { min-width: 720px; } }
@media screen and (prefers-color-scheme: dark) {
  body { background: #111827; color: #e5e7eb; } .muted, .tile span { color: #9ca3af; }
  .tile, th, td { border-color: #374151; } code { background: #1f2937; }
  svg { background: #fff; border-radius: 6px; }
}
@media print {
  body { margin: 0; max-width: none; font-size: 12px; } h2 { margin-top: 18px; }
  table { font-size: 10px; } .tile b { font-size: 16px; } .wide { overflow: visible; }
}
)";

std::string Tile(std::string_view figure, std::string_view what) {
  return "<div class=\"tile\"><b>" + EscapeXml(figure) + "</b><span>" + EscapeXml(what) +
         "</span></div>\n";
}

std::string Section(std::string_view title, std::string_view lead, const std::string& body) {
  return "<section><h2>" + EscapeXml(title) + "</h2>\n<p class=\"muted\">" + EscapeXml(lead) +
         "</p>\n<div class=\"wide\">" + body + "</div></section>\n";
}

// "15.6 trillion".
std::string TokensText(double tokens) {
  const bool trillions = tokens >= 1e12;
  return Decimal(tokens / (trillions ? 1e12 : 1e9), tokens >= 1e11 && !trillions ? 0 : 1) +
         (trillions ? " trillion" : " billion");
}

std::string Verdict(const Plan& plan) {
  const Proposal& best = plan.best.front();
  const planner::Evaluation& evaluation = best.evaluation;
  std::string text = "<div class=\"verdict\">\n";
  text +=
      Tile(SecondsText(evaluation.step.count()), "a step; " + SecondsText(best.band.low.count()) +
                                                     " to " + SecondsText(best.band.high.count()));
  text += Tile(Decimal(evaluation.tokens_per_second_per_device, 0), "tokens/s a GPU");
  text += Tile(Percent(evaluation.model_flops_utilization), "model FLOPs utilisation");
  text += Tile(GiBText(static_cast<double>(evaluation.device_memory.count())) + " GiB",
               "of " + GiBText(static_cast<double>(plan.job.cluster.device.memory.count())) +
                   " on the fullest GPU");
  if (best.run) {
    text += Tile(DaysText(best.run->days.expected), TokensText(plan.tokens) + " tokens; " +
                                                        DaysText(best.run->days.low) + " to " +
                                                        DaysText(best.run->days.high));
    text += Tile(DollarsText(best.run->dollars.expected),
                 DollarsText(best.run->dollars.low) + " to " + DollarsText(best.run->dollars.high));
  }
  return text + "</div>\n<p>Best layout: <code>" +
         EscapeXml(planner::search::LayoutText(best.training)) + "</code>, runs in " +
         EscapeXml(FrameworksText(best)) + ".</p>\n";
}

std::string NothingFits(const Plan& plan) {
  return "<p><b>No layout is proposed.</b> " + EscapeXml(planner::search::ObstacleText(plan)) +
         "</p>\n";
}

std::string NowBody(const RunNow& now) {
  const planner::Evaluation& today = now.proposal.evaluation;
  std::string text = "<p><code>" + EscapeXml(planner::search::LayoutText(now.proposal.training)) +
                     "</code></p>\n<p>" + EscapeXml(BandText(now.proposal)) + " a step, " +
                     Decimal(today.tokens_per_second_per_device, 0) + " tokens/s a GPU, " +
                     GiBText(static_cast<double>(today.device_memory.count())) +
                     " GiB on the fullest GPU, read from " + EscapeXml(now.source) + ".</p>\n";
  for (const std::string& line : now.assumed) text += "<p>Assumed: " + EscapeXml(line) + "</p>\n";
  for (const std::string& line : now.unknown) {
    text += "<p>Not understood: " + EscapeXml(line) + "</p>\n";
  }
  return text;
}

std::string BestTable(const Plan& plan) {
  std::string text =
      "<table><tr><th></th><th>layout</th><th class=\"n\">step</th><th class=\"n\">MFU</th>"
      "<th class=\"n\">memory</th>";
  if (plan.tokens > 0) text += "<th class=\"n\">run</th><th class=\"n\">cost</th>";
  text += "<th>against the best</th></tr>\n";
  for (size_t i = 0; i < plan.best.size(); ++i) {
    const Proposal& proposal = plan.best[i];
    const planner::Evaluation& evaluation = proposal.evaluation;
    const double slower = evaluation.step.count() / plan.best.front().evaluation.step.count() - 1;
    text += "<tr><td>" + std::to_string(i + 1) + "</td><td>" +
            EscapeXml(LayoutLine(proposal.training)) + "</td><td class=\"n\">" +
            EscapeXml(SecondsText(evaluation.step.count())) + "</td><td class=\"n\">" +
            Percent(evaluation.model_flops_utilization) + "</td><td class=\"n\">" +
            GiBText(static_cast<double>(evaluation.device_memory.count())) + " GiB</td>";
    if (plan.tokens > 0) {
      text += "<td class=\"n\">" + (proposal.run ? DaysText(proposal.run->days.expected) : "-") +
              "</td><td class=\"n\">" +
              (proposal.run ? DollarsText(proposal.run->dollars.expected) : "-") + "</td>";
    }
    std::string against = "the best";
    if (i > 0) {
      against = (slower < 5e-4 ? "as fast: " : Percent(slower) + " slower: ") +
                planner::search::Differences(plan.best.front(), proposal);
    }
    text += "<td>" + EscapeXml(against) + "</td></tr>\n";
  }
  return text + "</table>\n";
}

std::string StageTable(const Plan& plan) {
  const auto& stages = plan.best.front().evaluation.stages;
  std::string head =
      "<table><tr><th class=\"n\">stage</th><th class=\"n\">layers</th>"
      "<th class=\"n\">held</th>";
  std::string rows;
  std::vector<const MemoryPart*> parts;  // those that hold anything
  for (const MemoryPart& part : MemoryParts()) {
    const bool any = std::any_of(stages.begin(), stages.end(), [&part](const auto& stage) {
      return (stage.memory.*part.member).count() > int64_t{5} << 20;
    });
    if (!any) continue;
    parts.push_back(&part);
    head += "<th class=\"n\">" + EscapeXml(part.name) + "</th>";
  }
  for (size_t i = 0; i < stages.size(); ++i) {
    if (stages.size() > 16 && i >= 4 && i + 4 < stages.size()) {
      if (i == 4) {
        rows += "<tr><td class=\"n\">...</td><td colspan=\"12\">" +
                std::to_string(stages.size() - 8) + " stages between</td></tr>\n";
      }
      continue;
    }
    rows += "<tr><td class=\"n\">" + std::to_string(i) + "</td><td class=\"n\">" +
            std::to_string(stages[i].layers) + "</td><td class=\"n\">" +
            std::to_string(stages[i].micro_batches_held) + "</td>";
    for (const MemoryPart* part : parts) {
      rows += "<td class=\"n\">" +
              GiBText(static_cast<double>((stages[i].memory.*part->member).count()), 2) + "</td>";
    }
    rows += "<td class=\"n\"><b>" +
            GiBText(static_cast<double>(stages[i].memory.total().count()), 2) + "</b></td></tr>\n";
  }
  return head + "<th class=\"n\">total GiB</th></tr>\n" + rows + "</table>\n";
}

std::string SearchTable(const Plan& plan) {
  std::string text = "<table>\n";
  for (size_t rule = 0; rule < planner::search::kRules; ++rule) {
    const uint64_t points = plan.outcome.points[rule];
    if (points == 0) continue;
    text += "<tr><td class=\"n\">" + WithThousands(static_cast<int64_t>(points)) + "</td><td>" +
            EscapeXml(ToString(static_cast<Rule>(rule))) + "</td></tr>\n";
  }
  text += "</table>\n";
  if (plan.proof) {
    text += "<p>" +
            std::string(plan.proof->holds()
                            ? "Proved: each pruned region's bound was computed again and held "
                              "against the list, and " +
                                  WithThousands(static_cast<int64_t>(plan.proof->audited_points)) +
                                  " pruned layouts were computed in full."
                            : "Not proved.") +
            "</p>\n";
  }
  return text;
}

std::string Pictures(const Plan& plan) {
  std::string text = Section("Where a step's time goes",
                             "Each bar is a layout; colours are what the slowest pipeline stage "
                             "does or waits for.",
                             StepChart(plan));
  if (plan.timeline) {
    const planner::Evaluation& best = plan.best.front().evaluation;
    const double beside = static_cast<double>((best.device_memory - best.peak_allocated).count());
    text +=
        Section("Memory of a GPU over time",
                "What the program has allocated, in GiB: activations pile up while a stage runs "
                "ahead and go with each backward pass. Driver and allocator take " +
                    GiBText(beside) + " GiB more.",
                MemoryChart(plan));
    text += Section("What each pipeline stage does when",
                    "A row is a stage, time runs to the right. Grey is waiting: at the start until "
                    "work arrives, at the end until the last gradients are through.",
                    StageChart(plan));
  }
  text += Section(
      "Memory by stage, GiB",
      "What fills a GPU of each pipeline stage at its fullest moment; held: micro-batches whose "
      "activations are kept at once.",
      StageTable(plan));
  if (!plan.frontier.empty()) {
    text +=
        Section("Time against money",
                "Each point is a layout that no other beats in time, money and memory left free at "
                "once; further left is faster, lower is cheaper.",
                FrontierChart(plan));
  }
  if (!plan.influences.empty()) {
    text += Section("What would change it",
                    "One input changed at a time, everything else as it is; changes that cannot "
                    "run or do not fit have no bar.",
                    InfluenceChart(plan));
  }
  return text;
}

}  // namespace

std::string PlanPage(const Plan& plan, const RunNow* now) {
  const std::string title = EscapeXml(ModelLine(plan));
  std::string text =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>" +
      title + "</title>\n<style>" + kStyle + "</style></head><body>\n<h1>" + title +
      "</h1>\n<p class=\"muted\">" + EscapeXml(ClusterLine(plan)) +
      ". Predicted by longhaul plan, not measured.</p>\n";
  if (plan.best.empty()) {
    text += NothingFits(plan);
    if (now != nullptr) text += Section("What is run now", GainText(plan, *now), NowBody(*now));
  } else {
    text += Verdict(plan);
    if (now != nullptr) text += Section("What is run now", GainText(plan, *now), NowBody(*now));
    text += Section("The best layouts", "Fastest first; the last column says why not the others.",
                    BestTable(plan));
    text += Pictures(plan);
  }
  text += Section("The search",
                  "Of " + WithThousands(static_cast<int64_t>(plan.outcome.total_points())) +
                      " legal layouts, so many were settled by each rule.",
                  SearchTable(plan));
  return text + "</body></html>\n";
}

}  // namespace longhaul::frontend
