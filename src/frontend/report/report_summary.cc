#include "frontend/report/report_summary.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "base/time.h"
#include "base/units.h"
#include "frontend/report/report_words.h"
#include "proto/state_name.h"

namespace longhaul::frontend {
namespace {

// Lines of "name  value", the name dim.
class SummaryLines {
 public:
  explicit SummaryLines(const ViewStyle& style) : style_(style) {}

  void Add(std::string_view name, const std::string& value, std::string_view color = "") {
    constexpr size_t kNameWidth = 14;
    std::string head = " " + std::string(name);
    head += std::string(kNameWidth > Width(head) ? kNameWidth - Width(head) : 1, ' ');
    const std::string fitted =
        Fit(Harmless(value), style_.columns > kNameWidth ? style_.columns - kNameWidth : 1);
    if (!style_.color) return lines_.push_back(head + fitted);
    lines_.push_back("\x1b[2m" + head + "\x1b[0m" +
                     (color.empty() ? fitted : std::string(color) + fitted + "\x1b[0m"));
  }
  // Over as many lines as it needs, at most 5.
  void AddWhole(std::string_view name, std::string_view value) {
    constexpr size_t kNameWidth = 14;
    constexpr int kMostLines = 5;
    const size_t room = style_.columns > kNameWidth ? style_.columns - kNameWidth : 1;
    for (int line = 1; line < kMostLines && Width(value) > room; ++line) {
      // The last space that leaves a line that isn't too long.
      size_t end = value.rfind(' ', room);
      if (end == std::string_view::npos || end == 0) break;
      Add(name, std::string(value.substr(0, end)));
      value.remove_prefix(end + 1);
      name = "";
    }
    Add(name, std::string(value));
  }
  void Blank() { lines_.emplace_back(); }
  std::vector<std::string> Take() { return std::move(lines_); }

 private:
  ViewStyle style_;
  std::vector<std::string> lines_;
};

constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::string_view kYellow = "\x1b[33m";
constexpr std::string_view kRed = "\x1b[31m";

void AddLearning(const Report& report, SummaryLines& lines) {
  const proto::JobStatus& status = report.status;
  if (!HasLoss(report)) return;
  std::string loss = Decimal(status.first_loss(), 3) + " → " + Decimal(status.loss(), 3);
  if (status.validation_loss() > 0) {
    loss += "   validation " + Decimal(status.first_validation_loss(), 3) + " → " +
            Decimal(status.validation_loss(), 3);
  }
  lines.Add("loss", loss);
  if (status.tokens() > 0) {
    lines.Add("tokens",
              Compact(status.tokens()) + "   " + Compact(status.tokens_per_second()) + " a second");
  }
  if (report.flops_utilisation.has_value()) {
    lines.Add("MFU", Percent(*report.flops_utilisation) + "   " + Flops(*report.achieved_flops) +
                         " of " + Flops(*report.peak_flops) + " measured peak");
  }
}

void AddPrediction(const Report& report, SummaryLines& lines) {
  if (!report.prediction.has_value()) return;
  const Compared& step = report.prediction->step_seconds;
  const Compared& memory = report.prediction->worker_memory_bytes;
  if (!step.measured.has_value() || !memory.measured.has_value()) return;
  lines.Add("predicted", SecondsText(step.predicted) + " a step, was " +
                             SecondsText(*step.measured) + " (" + ErrorText(step) + "); " +
                             MemoryText(memory.predicted) + " a worker, was " +
                             MemoryText(*memory.measured) + " (" + ErrorText(memory) + ")");
}

void AddTime(const Report& report, SummaryLines& lines) {
  constexpr size_t kRowsShown = 6;
  lines.Add("goodput", report.reports_steps ? Percent(report.status.ledger().goodput(), 2)
                                            : "unknown: steps are " + std::string(kStepless));
  std::string_view name = "time";
  double rest = 0;
  for (size_t i = 0; i < report.categories.size(); ++i) {
    const story::CategoryRow& row = report.categories[i];
    if (i >= kRowsShown) {
      rest += row.seconds;
      continue;
    }
    const std::string time = Decimal(row.seconds, 2);
    const std::string share = Percent(row.share, 1);
    lines.Add(name, std::string(time.size() < 8 ? 8 - time.size() : 0, ' ') + time + " s " +
                        std::string(share.size() < 7 ? 7 - share.size() : 0, ' ') + share + "  " +
                        row.name);
    name = "";
  }
  if (rest > 0) lines.Add("", "   and " + SecondsText(rest) + " of smaller ones");
  lines.Add("ledger", LedgerVerdict(report.ledger), report.ledger.holds ? "" : kRed);
}

std::string RecoveryText(const Report& report, const FaultRow& row) {
  if (!report.reports_steps) {
    return row.restart_seconds.has_value()
               ? "processes ran again after " + SecondsText(*row.restart_seconds) +
                     ", next step unknown"
               : "no restart after it";
  }
  return row.recovery_seconds.has_value() ? "new step after " + SecondsText(*row.recovery_seconds)
                                          : "no new step after it";
}

void AddFaults(const Report& report, SummaryLines& lines) {
  constexpr size_t kFaultsShown = 5;
  if (!report.missed_faults.empty()) lines.AddWhole("not injected", MissedText(report));
  if (report.faults.empty()) return lines.Add("faults", "none");
  std::string_view name = "faults";
  for (size_t i = 0; i < std::min(report.faults.size(), kFaultsShown); ++i) {
    const FaultRow& row = report.faults[i];
    lines.Add(name,
              Headline(row.fault.what()) + ", " + RecoveryText(report, row) +
                  (!report.reports_steps ? ""
                                         : ", " + Plural(row.fault.lost_steps(), "step") +
                                               " lost, cost " + SecondsText(row.cost_seconds)),
              kYellow);
    name = "";
  }
  if (report.faults.size() > kFaultsShown) {
    lines.Add("", "and " + std::to_string(report.faults.size() - kFaultsShown) + " more");
  }
}

// Those that did not send everything.
void AddHooks(const Report& report, SummaryLines& lines) {
  std::string_view name = "hooks";
  for (const HookRow& row : report.facts.hooks) {
    if (row.failed == 0 && row.dropped == 0) continue;
    lines.Add(name,
              row.name + ": " + std::to_string(row.delivered) + " delivered, " +
                  std::to_string(row.failed) + " failed, " + std::to_string(row.dropped) +
                  " dropped" + (row.last_error.empty() ? "" : "; " + row.last_error),
              kYellow);
    name = "";
  }
}

}  // namespace

std::vector<std::string> Summary(const Report& report, const ViewStyle& style) {
  const proto::JobStatus& status = report.status;
  SummaryLines lines(style);
  lines.Blank();
  std::string result = std::string(StateName(status.state())) + " after " +
                       SecondsText(report.facts.process_seconds);
  if (report.reports_steps) result += ", " + Plural(status.highest_step(), "step");
  lines.Add(Fit(status.job().name(), 12), result,
            status.state() == proto::SUCCEEDED ? kGreen
            : status.state() == proto::FAILED  ? kRed
                                               : kYellow);
  if (!status.reason().empty()) lines.AddWhole("because", Headline(status.reason()));
  lines.Add("layout", LayoutText(report));
  AddLearning(report, lines);
  AddPrediction(report, lines);
  AddTime(report, lines);
  AddFaults(report, lines);
  AddHooks(report, lines);
  if (status.snapshots() > 0) {
    lines.Add("snapshots", std::to_string(status.snapshots()) + " in memory, " +
                               std::to_string(status.commits()) + " on disk, " +
                               SecondsText(status.snapshot_blocked_seconds()) + " each, every " +
                               Plural(status.snapshot_interval_steps(), "step"));
  }
  constexpr size_t kSampleLines = 5;
  if (!report.sample.empty()) {
    const auto sample = Split(report.sample, '\n');
    for (size_t i = 0; i < std::min(sample.size(), kSampleLines); ++i) {
      lines.Add(i == 0 ? "sample" : "", std::string(sample[i]));
    }
  }
  lines.Add("report", report.facts.run_directory + "/report.md");
  lines.Blank();
  return lines.Take();
}

}  // namespace longhaul::frontend
