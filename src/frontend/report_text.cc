#include "frontend/report_text.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "base/time.h"
#include "base/units.h"
#include "frontend/format.h"
#include "wire/json.h"

namespace longhaul::frontend {
namespace {

using Json = nlohmann::ordered_json;

std::string Flops(double per_second) { return Compact(per_second) + "FLOP/s"; }

std::string Signed(double share) {
  return (share >= 0 ? "+" : "") + Decimal(100 * share, 3) + " %";
}

std::string LayoutText(const Report& report) {
  const wire::Job& job = report.status.job();
  std::string text = Plural(report.ranks, "worker") + ": " + Plural(job.nodes(), "node") +
                     " with " + std::to_string(job.processes_per_node()) + " each";
  if (job.maximum_nodes() > job.minimum_nodes()) {
    text += "; elastic, " + std::to_string(job.minimum_nodes()) + " to " +
            Plural(job.maximum_nodes(), "node");
  }
  return text;
}

// A script may tell its steps through include/longhaul.h; torchrun's don't know of that.
constexpr const char* kStepless = "not reported by the command";

bool HasLoss(const Report& report) { return report.status.tokens() > 0; }

std::string LedgerVerdict(const LedgerCheck& check) {
  const std::string numbers =
      "the categories sum to " + Decimal(check.sum_seconds, 3) + " s, this process's clock says " +
      Decimal(check.measured_seconds, 3) + " s (" + Signed(check.difference) + ")";
  return check.holds ? numbers
                     : "THE LEDGER IS WRONG: " + numbers + ", more than " +
                           Percent(kLedgerTolerance) + " apart";
}

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
  const wire::JobStatus& status = report.status;
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
                                      Decimal(status.loss(), 4) + " nats a token"});
    if (status.validation_loss() > 0) {
      text += Row({"validation loss", Decimal(status.first_validation_loss(), 4) + " → " +
                                          Decimal(status.validation_loss(), 4) + " nats a token"});
    }
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
  for (const CategoryRow& row : report.categories) {
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
  wire::SnapshotWay way;
  const char* words;
};
constexpr WayName kWays[] = {
    {wire::COPIED, "by a copy while training stood still"},
    {wire::GUARDED, "by a thread behind the run, over guarded memory"},
    {wire::FORKED, "by a forked child behind the run"},
};

uint64_t SnapshotsBy(const wire::JobStatus& status, wire::SnapshotWay way) {
  return way < status.snapshot_ways_size() ? status.snapshot_ways(way) : 0;
}

// "27 were taken by ..., 3 by ...; they waited 0.2 s for free memory, 0.1 s at most."
std::string SnapshotWaysText(const wire::JobStatus& status) {
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
  const wire::JobStatus& status = report.status;
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
  const wire::JobStatus& status = report.status;
  if (status.resizes() == 0) return "";
  std::string text = "## Sizes\n\n";
  text += Row({"after", "nodes", "workers", "epoch", "why"});
  text += Row({"---:", "---:", "---:", "---:", "---"});
  for (const wire::SizeChange& change : status.sizes()) {
    const double after = static_cast<double>(change.at_ns() - status.submitted_at_ns()) * 1e-9;
    text += Row({SecondsText(after), std::to_string(change.nodes()),
                 std::to_string(uint64_t{change.nodes()} * status.job().processes_per_node()),
                 std::to_string(change.epoch()), EscapeMarkdown(change.reason())});
  }
  return text + "\n";
}

std::string FaultSection(const Report& report) {
  std::string text = "## Faults\n\n";
  if (report.faults.empty()) return text + "None.\n\n";
  for (const FaultRow& row : report.faults) {
    const wire::Fault& fault = row.fault;
    text += "### " + std::to_string(fault.number()) + ". " +
            EscapeMarkdown(Headline(fault.what())) + "\n\n";
    if (fault.what().find('\n') != std::string::npos) text += CodeBlock(fault.what()) + "\n";
    text += "- class " + EscapeMarkdown(fault.class_name()) +
            (fault.injected() ? ", injected" : "") +
            (fault.node().empty() ? "" : ", on " + EscapeMarkdown(fault.node())) + "\n";
    text += "- action: " + EscapeMarkdown(fault.action()) + "\n";
    text += "- " + Plural(fault.lost_steps(), "step") + " lost, gone on from step " +
            std::to_string(fault.from_step()) + "\n";
    text += "- cost " + SecondsText(row.cost_seconds) + " of every rank's time";
    if (row.recovery_seconds.has_value()) {
      text += "; a new step " + SecondsText(*row.recovery_seconds) + " after it happened";
    }
    text += "\n\n" + Row({"stage", "after the fault", "took", "budget"}) +
            Row({"---", "---:", "---:", "---:"});
    for (const FaultStage& stage : row.stages) {
      const bool over = stage.budget_seconds > 0 && stage.took_seconds > stage.budget_seconds;
      text += Row({stage.name, SecondsText(stage.at_seconds), SecondsText(stage.took_seconds),
                   (stage.budget_seconds > 0 ? SecondsText(stage.budget_seconds) : "") +
                       (over ? ", exceeded" : "")});
    }
    text += "\n";
  }
  return text;
}

std::string ErrorText(const Compared& figure) {
  if (!figure.error.has_value()) return "";
  return (*figure.error >= 0 ? "+" : "") + Decimal(100 * *figure.error, 1) + " %";
}

std::string MemoryText(double bytes) { return ToString(Bytes(static_cast<int64_t>(bytes))); }

std::string PredictionTable(const PredictionCheck& prediction) {
  const Compared& step = prediction.step_seconds;
  const Compared& memory = prediction.worker_memory_bytes;
  const auto known = [](const std::optional<double>& value, const auto& text) {
    return value.has_value() ? text(*value) : std::string("not measured");
  };
  std::string text =
      Row({"", "predicted", "measured", "error"}) + Row({"---", "---:", "---:", "---:"});
  text += Row({"step", SecondsText(step.predicted),
               known(step.measured, [](double seconds) { return SecondsText(seconds); }),
               ErrorText(step)});
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
      "| `metrics.csv` | one line a step |\n"
      "| `loss.svg`, `timeline.svg` | the loss curve; what every node did when |\n"
      "| `logs/` | what every worker printed, by epoch and rank |\n"
      "| `events.jsonl` | every notice of the controller |\n"
      "| `checkpoints/` | committed checkpoints; `longhaul run --resume` goes on from the newest "
      "|\n"
      "| `cluster/` | logs of the controller, the agents; the event log |\n\n";
  text += "Run on " + EscapeMarkdown(facts.host) + " (" + EscapeMarkdown(facts.processor) + ", " +
          Plural(facts.cores, "core") + ", load " + Decimal(facts.load_average, 2) +
          " at the start), " + ToString(InstantFromNanoseconds(facts.started_at_ns)) +
          ", longhaul " + facts.version + ":\n\n";
  return text + CodeBlock(facts.command_line);
}

Json FaultJson(const FaultRow& row) {
  Json json = wire::ToJson(row.fault);
  json["cost_seconds"] = row.cost_seconds;
  json["recovery_seconds"] =
      row.recovery_seconds.has_value() ? Json(*row.recovery_seconds) : Json();
  Json stages = Json::array();
  for (const FaultStage& stage : row.stages) {
    stages.push_back({{"name", stage.name},
                      {"after_seconds", stage.at_seconds},
                      {"took_seconds", stage.took_seconds},
                      {"budget_seconds", stage.budget_seconds}});
  }
  json["stages"] = stages;
  return json;
}

Json PredictionJson(const Report& report) {
  if (!report.prediction.has_value()) return {};
  const auto figure = [](const Compared& compared) {
    return Json{{"predicted", compared.predicted},
                {"measured", compared.measured ? Json(*compared.measured) : Json()},
                {"error", compared.error ? Json(*compared.error) : Json()}};
  };
  const PredictionCheck& prediction = *report.prediction;
  return {{"step_seconds", figure(prediction.step_seconds)},
          {"worker_memory_bytes", figure(prediction.worker_memory_bytes)},
          {"micro_batch", report.status.job().prediction().micro_batch()},
          {"level", prediction.level},
          {"basis", prediction.basis}};
}

Json SizesJson(const wire::JobStatus& status) {
  Json sizes = Json::array();
  for (const wire::SizeChange& change : status.sizes()) {
    sizes.push_back(
        {{"seconds", static_cast<double>(change.at_ns() - status.submitted_at_ns()) * 1e-9},
         {"nodes", change.nodes()},
         {"epoch", change.epoch()},
         {"reason", change.reason()}});
  }
  return sizes;
}

Json LedgerJson(const Report& report) {
  Json categories = Json::object();
  for (const CategoryRow& row : report.categories) {
    categories[row.name] = {{"seconds", row.seconds}, {"share", row.share}};
  }
  return {{"categories", categories},
          {"sum_seconds", report.ledger.sum_seconds},
          {"measured_seconds", report.ledger.measured_seconds},
          {"difference", report.ledger.difference},
          {"tolerance", kLedgerTolerance},
          {"holds", report.ledger.holds}};
}

}  // namespace

std::string ReportMarkdown(const Report& report) {
  std::string text = HeadSection(report) + TimeSection(report) + SizeSection(report) +
                     FaultSection(report) + SnapshotSection(report) + PlanSection(report);
  if (!report.sample.empty())
    text += "## Sample of generated text\n\n" + CodeBlock(report.sample) + "\n";
  if (report.reports_steps) text += "![loss](loss.svg)\n\n";
  text += "![timeline](timeline.svg)\n\n";
  return text + FilesSection(report);
}

Json ReportJson(const Report& report) {
  const wire::JobStatus& status = report.status;
  const RunFacts& facts = report.facts;
  const auto or_null = [](const std::optional<double>& number) {
    return number.has_value() ? Json(*number) : Json();
  };
  Json faults = Json::array();
  for (const FaultRow& row : report.faults) faults.push_back(FaultJson(row));
  Json json = {
      {"job", status.job().name()},
      {"state", std::string(StateName(status.state()))},
      {"reason", status.reason()},
      {"steps", status.highest_step()},
      {"reports_steps", report.reports_steps},
      {"total_steps", status.job().total_steps()},
      {"first_loss", status.first_loss()},
      {"loss", status.loss()},
      {"first_validation_loss", status.first_validation_loss()},
      {"validation_loss", status.validation_loss()},
      {"tokens", status.tokens()},
      {"tokens_per_second", status.tokens_per_second()},
      {"samples_committed", status.samples_committed()},
      {"goodput", status.ledger().goodput()},
      {"ledger", LedgerJson(report)},
      {"faults", faults},
      {"restarts", status.restarts()},
      {"snapshots",
       {{"in_memory", status.snapshots()},
        {"on_disk", status.commits()},
        {"blocked_seconds_mean", status.snapshot_blocked_seconds()},
        {"blocked_seconds", report.snapshot_seconds},
        {"by_way",
         {{"copied", SnapshotsBy(status, wire::COPIED)},
          {"guarded", SnapshotsBy(status, wire::GUARDED)},
          {"forked", SnapshotsBy(status, wire::FORKED)}}},
        {"waited_for_slots_seconds", status.snapshot_waited_seconds()},
        {"waited_for_slots_seconds_max", status.snapshot_waited_seconds_max()},
        {"memory_step", status.memory_step()},
        {"committed_step", status.committed_step()},
        {"interval_steps", status.snapshot_interval_steps()},
        {"interval_reason", status.snapshot_interval_reason()}}},
      {"model_flops", status.flops()},
      {"model_flops_per_second", or_null(report.achieved_flops)},
      {"peak_flops_per_second", or_null(report.peak_flops)},
      {"mfu", or_null(report.flops_utilisation)},
      {"layout",
       {{"nodes", status.job().nodes()},
        {"processes_per_node", status.job().processes_per_node()},
        {"reason", status.job().plan_reason()}}},
      {"sizes", SizesJson(status)},
      {"mean_ranks", report.mean_ranks},
      {"prediction", PredictionJson(report)},
      {"results", report.results},
  };
  json["run"] = {{"command_line", facts.command_line},
                 {"run_directory", facts.run_directory},
                 {"host", facts.host},
                 {"processor", facts.processor},
                 {"cores", facts.cores},
                 {"load_average", facts.load_average},
                 {"started_at", ToString(InstantFromNanoseconds(facts.started_at_ns))},
                 {"version", facts.version},
                 {"cluster_seconds", facts.cluster_seconds},
                 {"preparing_seconds", facts.preparing_seconds},
                 {"job_seconds", facts.job_seconds},
                 {"process_seconds", facts.process_seconds}};
  return json;
}

std::string MetricsCsv(const RunHistory& history, int64_t submitted_at_ns) {
  std::string csv =
      "step,epoch,seconds,loss,validation_loss,gradient_norm,tokens_per_second,step_seconds\n";
  for (const StepPoint& point : history.steps) {
    csv += std::to_string(point.step) + "," + std::to_string(point.epoch) + "," +
           Decimal(static_cast<double>(point.at_ns - submitted_at_ns) * 1e-9, 3) + "," +
           Decimal(point.loss, 6) + "," +
           (point.validation_loss.has_value() ? Decimal(*point.validation_loss, 6) : "") + "," +
           Decimal(point.gradient_norm, 6) + "," + Decimal(point.tokens_per_second, 1) + "," +
           Decimal(point.step_seconds, 6) + "\n";
  }
  return csv;
}

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
  const wire::JobStatus& status = report.status;
  if (!HasLoss(report)) return;
  std::string loss = Decimal(status.first_loss(), 3) + " → " + Decimal(status.loss(), 3);
  if (status.validation_loss() > 0) {
    loss += "   validation " + Decimal(status.first_validation_loss(), 3) + " → " +
            Decimal(status.validation_loss(), 3);
  }
  lines.Add("loss", loss);
  lines.Add("tokens",
            Compact(status.tokens()) + "   " + Compact(status.tokens_per_second()) + " a second");
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
    const CategoryRow& row = report.categories[i];
    if (i >= kRowsShown) {
      rest += row.seconds;
      continue;
    }
    const std::string seconds = Decimal(row.seconds, 2);
    const std::string share = Percent(row.share, 1);
    lines.Add(name, std::string(seconds.size() < 8 ? 8 - seconds.size() : 0, ' ') + seconds +
                        " s " + std::string(share.size() < 7 ? 7 - share.size() : 0, ' ') + share +
                        "  " + row.name);
    name = "";
  }
  if (rest > 0) lines.Add("", "   and " + SecondsText(rest) + " of smaller ones");
  lines.Add("ledger", LedgerVerdict(report.ledger), report.ledger.holds ? "" : kRed);
}

std::string RecoveryText(const Report& report, const FaultRow& row) {
  if (!report.reports_steps) {
    return row.restart_seconds.has_value()
               ? "all workers ran again after " + SecondsText(*row.restart_seconds)
               : "no restart after it";
  }
  return row.recovery_seconds.has_value() ? "new step after " + SecondsText(*row.recovery_seconds)
                                          : "no new step after it";
}

void AddFaults(const Report& report, SummaryLines& lines) {
  constexpr size_t kFaultsShown = 5;
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

}  // namespace

std::vector<std::string> Summary(const Report& report, const ViewStyle& style) {
  const wire::JobStatus& status = report.status;
  SummaryLines lines(style);
  lines.Blank();
  std::string result = std::string(StateName(status.state())) + " after " +
                       SecondsText(report.facts.process_seconds);
  if (report.reports_steps) result += ", " + Plural(status.highest_step(), "step");
  lines.Add(Fit(status.job().name(), 12), result,
            status.state() == wire::SUCCEEDED ? kGreen
            : status.state() == wire::FAILED  ? kRed
                                              : kYellow);
  if (!status.reason().empty()) lines.AddWhole("because", Headline(status.reason()));
  lines.Add("layout", LayoutText(report));
  AddLearning(report, lines);
  AddPrediction(report, lines);
  AddTime(report, lines);
  AddFaults(report, lines);
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
