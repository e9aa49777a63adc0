#include "frontend/report/report_markdown.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "base/time.h"
#include "base/units.h"
#include "frontend/live_view.h"
#include "frontend/report/report_words.h"
#include "proto/events.pb.h"
#include "proto/state_name.h"

namespace longhaul::frontend {
namespace {

// A fence longer than any run of backticks inside.
std::string CodeBlock(const std::string& text) {
  size_t longest = 2;
  size_t run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  std::string clean;
  for (const std::string_view line : Split(text, '\n')) clean += Harmless(line) + "\n";
  const std::string fence(longest + 1, '`');
  return fence + "text\n" + clean + fence + "\n";
}

std::string Row(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += " " + cell + " |";
  return row + "\n";
}

std::string HeadSection(const Report& report) {
  const proto::JobStatus& status = report.status;
  std::string text = "# " + EscapeMarkdown(status.job().name()) + ": " +
                     std::string(StateName(status.state())) + "\n\n";
  if (!status.reason().empty()) text += EscapeMarkdown(Headline(status.reason())) + "\n\n";
  text += Row({"", ""}) + Row({"---", "---"});
  text += Row({"steps", !report.reports_steps
                            ? kStepless
                            : std::to_string(status.highest_step()) +
                                  (status.job().total_steps() != 0
                                       ? " of " + std::to_string(status.job().total_steps())
                                       : "")});
  if (HasLoss(report)) {
    text += Row({"training loss", Decimal(status.first_loss(), 4) + " → " +
                                      Decimal(status.loss(), 4) + LossUnit(report)});
    if (status.validation_loss() > 0) {
      text += Row({"validation loss", Decimal(status.first_validation_loss(), 4) + " → " +
                                          Decimal(status.validation_loss(), 4) + LossUnit(report)});
    }
  }
  if (status.tokens() > 0) {
    text += Row({"tokens", Compact(status.tokens()) + ", " + Compact(status.tokens_per_second()) +
                               " a second"});
  }
  if (report.reports_steps) text += Row({"goodput", Percent(status.ledger().goodput(), 2)});
  if (report.achieved_flops.has_value()) {
    std::string flops = Flops(*report.achieved_flops) + " of the model in productive time";
    if (report.flops_utilisation.has_value()) {
      flops = Percent(*report.flops_utilisation) + ": " + flops + " against a measured peak of " +
              Flops(*report.peak_flops);
    }
    text += Row({"MFU", flops});
  }
  text += Row({"faults", std::to_string(report.faults.size()) + " (" +
                             Plural(status.restarts(), "restart") + ")"});
  text += Row({"layout", LayoutText(report)});
  return text + "\n";
}

std::string TimeSection(const Report& report) {
  std::string text = "## Where the time went\n\n";
  text += Row({"category", "seconds", "share", "what it is"});
  text += Row({"---", "---:", "---:", "---"});
  for (const story::CategoryRow& row : report.categories) {
    text += Row({row.name, Decimal(row.seconds, 3), Percent(row.share, 2), row.meaning});
  }
  text += Row({"**sum**", "**" + Decimal(report.ledger.sum_seconds, 3) + "**", "",
               "mean over " + (report.mean_ranks == report.ranks
                                   ? Plural(report.ranks, "rank")
                                   : Decimal(report.mean_ranks, 2) + " ranks on average")});
  const RunFacts& facts = report.facts;
  const std::string verdict = LedgerVerdict(report.ledger);
  text += "\n" + (report.ledger.holds ? verdict : "**" + verdict + "**") + ".\n\n";
  text += "Around it: " + SecondsText(facts.cluster_seconds) + " to start the cluster, " +
          SecondsText(facts.preparing_seconds) +
          " until the job was accepted (data, measuring the machine, planning); the whole program "
          "ran " +
          SecondsText(facts.process_seconds) + ".\n\n";
  return text;
}

struct WayName {
  proto::SnapshotWay way;
  const char* words;
};
constexpr WayName kWays[] = {
    {proto::COPIED, "by a copy while training stood still"},
    {proto::GUARDED, "by a thread while training continues"},
    {proto::FORKED, "by a forked child while training continues"},
};

// "27 were taken by ..., 3 by ...; they waited 0.2 s for free memory, 0.1 s at most."
std::string SnapshotWaysText(const proto::JobStatus& status) {
  std::string text;
  for (const WayName& each : kWays) {
    const uint64_t snapshots = SnapshotsBy(status, each.way);
    if (snapshots == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(snapshots) + " " + each.words;
  }
  if (text.empty()) return "";
  text = "Taken: " + text + ". ";
  if (status.snapshot_waited_seconds() <= 0) return text + "None waited for a free slot.\n\n";
  return text + "They waited " + SecondsText(status.snapshot_waited_seconds()) +
         " for a slot that was still being sent or written, the longest " +
         SecondsText(status.snapshot_waited_seconds_max()) + ".\n\n";
}

std::string SnapshotSection(const Report& report) {
  const proto::JobStatus& status = report.status;
  std::string text = "## Snapshots\n\n";
  if (status.snapshots() == 0) return text + "None was taken.\n\n";
  text += std::to_string(status.snapshots()) + " in memory, " + std::to_string(status.commits()) +
          " on disk; training stopped " + SecondsText(status.snapshot_blocked_seconds()) +
          " for one on average, " + SecondsText(report.snapshot_seconds) + " in all. ";
  text += "Newest: step " + std::to_string(status.memory_step()) + " in memory, step " +
          std::to_string(status.committed_step()) + " on disk.\n\n";
  text += SnapshotWaysText(status);
  text += "Interval: " + Plural(status.snapshot_interval_steps(), "step");
  if (!status.snapshot_interval_reason().empty()) {
    text += " — " + EscapeMarkdown(status.snapshot_interval_reason());
  }
  return text + "\n\n";
}

// Where the number of nodes has changed.
std::string SizeSection(const Report& report) {
  const proto::JobStatus& status = report.status;
  if (status.resizes() == 0) return "";
  std::string text = "## Sizes\n\n";
  text += Row({"after", "nodes", "workers", "attempt", "why"});
  text += Row({"---:", "---:", "---:", "---:", "---"});
  for (const proto::SizeChange& change : status.sizes()) {
    const double after = static_cast<double>(change.at_ns() - status.submitted_at_ns()) * 1e-9;
    text += Row({SecondsText(after), std::to_string(change.nodes()),
                 std::to_string(uint64_t{change.nodes()} * status.job().processes_per_node()),
                 std::to_string(change.attempt()), EscapeMarkdown(change.reason())});
  }
  return text + "\n";
}

std::string FaultSection(const Report& report) {
  std::string text = "## Faults\n\n";
  if (!report.missed_faults.empty()) text += "**" + EscapeMarkdown(MissedText(report)) + ".**\n\n";
  if (report.faults.empty()) return text + "None.\n\n";
  for (const FaultRow& row : report.faults) {
    const proto::Fault& fault = row.fault;
    text += "### " + std::to_string(fault.number()) + ". " +
            EscapeMarkdown(Headline(fault.what())) + "\n\n";
    if (fault.what().find('\n') != std::string::npos) text += CodeBlock(fault.what()) + "\n";
    text += "- class " + EscapeMarkdown(fault.class_name()) +
            (fault.injected() ? ", injected" : "") +
            (fault.node().empty() ? "" : ", on " + EscapeMarkdown(fault.node())) + "\n";
    text += "- action: " + EscapeMarkdown(fault.action()) + "\n";
    text += "- " + Plural(fault.lost_steps(), "step") + " lost, continued from step " +
            std::to_string(fault.from_step()) + "\n";
    text += "- cost " + SecondsText(row.cost_seconds) + " of every rank's time";
    if (row.recovery_seconds.has_value()) {
      text += "; a new step " + SecondsText(*row.recovery_seconds) + " after it happened";
    }
    text += "\n\n" + Row({"stage", "after the fault", "took", "budget"}) +
            Row({"---", "---:", "---:", "---:"});
    for (const story::FaultStage& stage : row.stages) {
      const bool over = stage.budget_seconds > 0 && stage.took_seconds > stage.budget_seconds;
      text += Row({stage.name, SecondsText(stage.at_seconds), SecondsText(stage.took_seconds),
                   (stage.budget_seconds > 0 ? SecondsText(stage.budget_seconds) : "") +
                       (over ? ", exceeded" : "")});
    }
    text += "\n";
  }
  return text;
}

std::string WarningSection(const Report& report) {
  if (report.warnings.empty()) return "";
  std::string text =
      "## Warnings\n\n" + Row({"after", "times", "what"}) + Row({"---:", "---:", "---"});
  for (const WarningRow& row : report.warnings) {
    text += Row({SecondsText(row.after_seconds), std::to_string(row.times),
                 EscapeMarkdown((row.error ? "error: " : "") + row.text)});
  }
  return text + "\n";
}

std::string HookSection(const Report& report) {
  if (report.facts.hooks.empty()) return "";
  std::string text = "## Hooks\n\n" +
                     Row({"hook", "delivered", "failed", "dropped", "last error"}) +
                     Row({"---", "---:", "---:", "---:", "---"});
  for (const HookRow& row : report.facts.hooks) {
    text +=
        Row({EscapeMarkdown(row.name), std::to_string(row.delivered), std::to_string(row.failed),
             std::to_string(row.dropped), EscapeMarkdown(row.last_error)});
  }
  return text + "\n";
}

std::string PredictionTable(const PredictionCheck& prediction) {
  const Compared& step = prediction.step_seconds;
  const Compared& memory = prediction.worker_memory_bytes;
  const auto known = [](const std::optional<double>& value, const auto& text) {
    return value.has_value() ? text(*value) : std::string("not measured");
  };
  std::string text =
      Row({"", "predicted", "measured", "error"}) + Row({"---", "---:", "---:", "---:"});
  text +=
      Row({"step", SecondsText(step.predicted),
           known(step.measured, [](double value) { return SecondsText(value); }), ErrorText(step)});
  text += Row({"memory of a worker at its peak", MemoryText(memory.predicted),
               known(memory.measured, MemoryText), ErrorText(memory)});
  return text +
         "\nThe step is the median one; memory is resident, of the fullest worker. Figures of "
         "the machine (" +
         prediction.level + "): " + EscapeMarkdown(prediction.basis) + ".\n\n";
}

std::string PlanSection(const Report& report) {
  std::string text = "## Layout\n\n" + LayoutText(report) + ".\n\n";
  if (report.prediction.has_value()) text += PredictionTable(*report.prediction);
  if (!report.status.job().plan_reason().empty()) {
    for (const std::string_view line : Split(report.status.job().plan_reason(), '\n')) {
      text += "> " + EscapeMarkdown(line) + "\n";
    }
    text += "\n";
  }
  return text;
}

std::string FilesSection(const Report& report) {
  const RunFacts& facts = report.facts;
  std::string text = "## What lies here\n\n";
  text +=
      "| file | what |\n| --- | --- |\n"
      "| `report.json` | this report for programs |\n"
      "| `report.html` | the web page of the run as one file, with each fault's evidence |\n"
      "| `metrics.csv` | one line a step |\n"
      "| `tensorboard/` | losses and speed for TensorBoard: `tensorboard --logdir .` |\n"
      "| `loss.svg`, `timeline.svg` | the loss curve; what every node did when |\n"
      "| `logs/` | what every worker printed, by attempt and rank |\n"
      "| `events.jsonl` | every notification of the controller |\n"
      "| `checkpoints/` | committed checkpoints; `longhaul run --resume` continues from the newest "
      "|\n"
      "| `cluster/` | logs of the controller, the agents; the event log |\n\n";
  text += "Run on " + EscapeMarkdown(facts.host) + " (" + EscapeMarkdown(facts.processor) + ", " +
          Plural(facts.cores, "core") + ", load " + Decimal(facts.load_average, 2) +
          " at the start), " + ToString(InstantFromNanoseconds(facts.started_at_ns)) +
          ", longhaul " + facts.version + ":\n\n";
  return text + CodeBlock(facts.command_line);
}

}  // namespace

std::string ReportMarkdown(const Report& report) {
  std::string text = HeadSection(report) + TimeSection(report) + SizeSection(report) +
                     FaultSection(report) + WarningSection(report) + HookSection(report) +
                     SnapshotSection(report) + PlanSection(report);
  if (!report.sample.empty())
    text += "## Sample of generated text\n\n" + CodeBlock(report.sample) + "\n";
  if (report.reports_steps) text += "![loss](loss.svg)\n\n";
  text += "![timeline](timeline.svg)\n\n";
  return text + FilesSection(report);
}

}  // namespace longhaul::frontend
