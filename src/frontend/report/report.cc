#include "frontend/report/report.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/format.h"

namespace longhaul::frontend {
namespace {

using Json = nlohmann::ordered_json;

LedgerCheck CheckLedger(const std::vector<story::CategoryRow>& rows, const RunFacts& facts) {
  LedgerCheck check;
  for (const story::CategoryRow& row : rows) check.sum_seconds += row.seconds;
  check.measured_seconds = facts.job_seconds;
  const double late =
      std::clamp(facts.notification_delay_seconds, 0.0, kMostNotificationDelaySeconds);
  check.allowed_seconds =
      std::max(kLedgerTolerance * check.measured_seconds, kLedgerFloorSeconds + late);
  if (check.measured_seconds > 0) {
    check.difference = (check.sum_seconds - check.measured_seconds) / check.measured_seconds;
    check.holds = std::abs(check.sum_seconds - check.measured_seconds) <= check.allowed_seconds;
  }
  return check;
}

FaultRow RowOf(const proto::Fault& fault, double ranks) {
  FaultRow row;
  row.fault = fault;
  row.cost_seconds = fault.lost_rank_seconds() / ranks;
  row.stages = story::StagesOf(fault);
  const int64_t began_ns =
      fault.happened_at_ns() != 0 ? fault.happened_at_ns() : fault.detected_at_ns();
  if (fault.started_at_ns() != 0) {
    row.restart_seconds = static_cast<double>(fault.started_at_ns() - began_ns) * 1e-9;
  }
  if (fault.new_step_at_ns() != 0) {
    row.recovery_seconds = static_cast<double>(fault.new_step_at_ns() - began_ns) * 1e-9;
  }
  return row;
}

Json MergeResults(const proto::JobStatus& status) {
  Json merged = Json::object();
  for (const std::string& text : status.results()) {
    const Json result = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (result.is_object()) merged.update(result);
  }
  return merged;
}

std::optional<double> NumberIn(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::string TextIn(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

Compared Compare(double predicted, std::optional<double> measured) {
  Compared compared{predicted, measured, std::nullopt};
  if (measured.has_value() && *measured > 0) compared.error = predicted / *measured - 1;
  return compared;
}

// The median distance of two steps that follow each other in one attempt: evaluations, snapshots
// and faults lie outside it as long as most steps have none.
std::optional<double> MedianStepSeconds(const std::vector<StepPoint>& steps) {
  std::vector<double> distances;
  for (size_t i = 1; i < steps.size(); ++i) {
    const StepPoint& before = steps[i - 1];
    const StepPoint& point = steps[i];
    if (point.attempt != before.attempt || point.step <= before.step) continue;
    distances.push_back(1e-9 * static_cast<double>(point.at_ns - before.at_ns) /
                        static_cast<double>(point.step - before.step));
  }
  if (distances.empty()) return std::nullopt;
  const auto middle = distances.begin() + static_cast<ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  return *middle;
}

double SecondsOf(const std::vector<story::CategoryRow>& rows, std::string_view name) {
  for (const story::CategoryRow& row : rows) {
    if (row.name == name) return row.seconds;
  }
  return 0;
}

// The same text from several nodes or at several times is one row.
std::vector<WarningRow> WarningsOf(const RunHistory& history, int64_t submitted_at_ns) {
  std::vector<WarningRow> rows;
  std::map<std::string, size_t> row_of;
  for (const proto::Notification& notification : history.messages) {
    const proto::MessageNotification& message = notification.message();
    if (message.severity() == proto::MessageNotification::INFO) continue;
    const auto [found, is_new] = row_of.emplace(message.text(), rows.size());
    if (!is_new) {
      ++rows[found->second].times;
      continue;
    }
    rows.push_back({static_cast<double>(notification.at_ns() - submitted_at_ns) * 1e-9,
                    message.severity() == proto::MessageNotification::ERROR, message.text()});
  }
  return rows;
}

// As in the grammar of --inject (spec/job/fault_plan.h).
std::string InWords(const proto::PlannedFault& fault) {
  const std::string at = " at step " + std::to_string(fault.step());
  switch (fault.kind()) {
    case proto::PlannedFault::KILL_AGENT:
      return "kill agent " + std::to_string(fault.target() + 1) + at;
    case proto::PlannedFault::KILL_NODE:
      return "kill node " + std::to_string(fault.target() + 1) + at;
    case proto::PlannedFault::KILL_CONTROLLER:
      return "kill controller" + at;
    case proto::PlannedFault::STOP_WORKER:
      return "stop worker " + std::to_string(fault.target()) + " for " +
             SecondsText(static_cast<double>(fault.duration_ns()) * 1e-9) + at;
    default:
      return "kill worker " + std::to_string(fault.target()) + at;
  }
}

void NoteMissedFaults(Report& report) {
  const proto::JobStatus& status = report.status;
  uint64_t first = 0;
  for (const proto::PlannedFault& fault : status.faults_to_come()) {
    report.missed_faults.push_back(InWords(fault));
    first = first == 0 ? fault.step() : std::min(first, fault.step());
  }
  if (report.missed_faults.empty()) return;
  if (!report.reports_steps && status.job().workload().step_pattern().empty()) {
    report.missed_reason =
        "the command reported no steps: read them from its output with --step-pattern, or call "
        "longhaul.report(step) in the script";
  } else if (!report.reports_steps) {
    report.missed_reason = "no line of the command's output matched --step-pattern";
  } else if (status.highest_step() < first) {
    report.missed_reason = "the last step was " + std::to_string(status.highest_step());
  } else {
    report.missed_reason = "the job had no such worker or node when the step was reached";
  }
}

}  // namespace

Report MakeReport(const proto::JobStatus& status, const RunHistory& history,
                  const RunFacts& facts) {
  Report report;
  report.status = status;
  report.facts = facts;
  report.ranks = std::max(1u, status.job().nodes() * status.job().processes_per_node());
  report.reports_steps = status.job().workload().built_in() || status.highest_step() > 0;
  report.mean_ranks = story::MeanRanks(status);
  report.categories = story::CategoriesOf(status.ledger(), report.mean_ranks);
  report.ledger = CheckLedger(report.categories, facts);
  // The status takes precedence; the history has those that a long run's status has dropped.
  std::map<uint32_t, proto::Fault> faults = history.faults;
  for (const proto::Fault& fault : status.faults()) faults[fault.number()] = fault;
  for (const auto& [number, fault] : faults) {
    report.faults.push_back(RowOf(fault, report.mean_ranks));
  }
  report.warnings = WarningsOf(history, status.submitted_at_ns());

  NoteMissedFaults(report);
  report.results = MergeResults(status);
  report.sample = TextIn(report.results, "prompt") + TextIn(report.results, "sample");
  report.peak_flops = NumberIn(report.results, "peak_flops_per_second");
  const double productive = SecondsOf(report.categories, "productive");
  if (status.flops() > 0 && productive > 0) {
    report.achieved_flops = status.flops() / productive;
    if (report.peak_flops.value_or(0) > 0) {
      report.flops_utilisation = *report.achieved_flops / *report.peak_flops;
    }
  }
  if (status.job().has_prediction()) {
    const proto::Prediction& prediction = status.job().prediction();
    report.prediction = {Compare(prediction.step_seconds(), MedianStepSeconds(history.steps)),
                         Compare(static_cast<double>(prediction.worker_memory_bytes()),
                                 NumberIn(report.results, "peak_memory_bytes")),
                         prediction.level(), prediction.basis()};
  }
  report.snapshot_seconds = SecondsOf(report.categories, "snapshot");
  return report;
}

}  // namespace longhaul::frontend
