#include "frontend/report/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "frontend/format.h"
#include "proto/fault_class.h"

namespace longhaul::frontend {
namespace {

using Json = nlohmann::ordered_json;

struct CategoryName {
  proto::Category category;
  const char* name;
  const char* meaning;
};

constexpr std::array kCategories = {
    CategoryName{proto::PRODUCTIVE, "productive", "steps that count"},
    CategoryName{proto::QUEUE, "queue", "waited for nodes (outside goodput)"},
    CategoryName{proto::START_UP_TIME, "start-up", "processes begin, import, set up their device"},
    CategoryName{proto::RENDEZVOUS_TIME, "rendezvous", "join the store, build process groups"},
    CategoryName{proto::RESTORE_TIME, "restore", "read the state back, or initialise it"},
    CategoryName{proto::DATA_STALL, "data stall", "steps waited for input"},
    CategoryName{proto::STALL, "stall", "steps that took longer than such steps do"},
    CategoryName{proto::SNAPSHOT, "snapshot", "stopped for a copy of the state"},
    CategoryName{proto::EVALUATION, "evaluation", "held-out text"},
    CategoryName{proto::LOST_WORK, "lost work", "steps thrown away by a fault"},
    CategoryName{proto::DETECT, "detect", "from a fault to its event in the log"},
    CategoryName{proto::DIAGNOSE, "diagnose", "from the event to the decision"},
    CategoryName{proto::REPAIR, "repair", "from the decision to new processes"},
    CategoryName{proto::FINISH, "finish", "last evaluation, sample, last checkpoint"},
    CategoryName{proto::UNREPORTED, "unreported", "workers run, but report no steps"},
    CategoryName{proto::OTHER, "other", "none of the above"},
};

std::vector<CategoryRow> CategoriesOf(const proto::Ledger& ledger, double ranks) {
  std::vector<CategoryRow> rows;
  double sum = 0;
  for (const CategoryName& known : kCategories) {
    CategoryRow row{known.name, known.meaning, 0, 0};
    for (const proto::CategoryTime& time : ledger.categories()) {
      if (time.category() == known.category) row.seconds += time.rank_seconds() / ranks;
    }
    sum += row.seconds;
    if (row.seconds > 0) rows.push_back(row);
  }
  for (CategoryRow& row : rows) row.share = row.seconds / sum;
  std::stable_sort(rows.begin(), rows.end(), [](const CategoryRow& a, const CategoryRow& b) {
    const bool a_first = a.name == "productive";
    const bool b_first = b.name == "productive";
    return a_first != b_first ? a_first : a.seconds > b.seconds;
  });
  return rows;
}

LedgerCheck CheckLedger(const std::vector<CategoryRow>& rows, const RunFacts& facts) {
  LedgerCheck check;
  for (const CategoryRow& row : rows) check.sum_seconds += row.seconds;
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

// What the stages may take when one worker dies and its state is in local memory.
constexpr double kDetectBudget = 0.001;      // its pidfd becomes readable
constexpr double kDecideBudget = 0.002;      // event, fence, decision, logged
constexpr double kStartBudget = 0.010;       // the others killed and reaped, all forked again
constexpr double kRendezvousBudget = 0.040;  // store and process group

FaultRow RowOf(const proto::Fault& fault, double ranks) {
  FaultRow row;
  row.fault = fault;
  row.cost_seconds = fault.lost_rank_seconds() / ranks;
  const bool in_place = proto::FaultClassOf(fault.class_name()) == proto::FaultClass::kProcess;
  const struct {
    const char* name;
    int64_t at_ns;
    double budget_seconds;
  } kStages[] = {
      {"detected", fault.detected_at_ns(), in_place ? kDetectBudget : 0},
      {"decided", fault.decided_at_ns(), in_place ? kDecideBudget : 0},
      {"processes started", fault.started_at_ns(), in_place ? kStartBudget : 0},
      {"in rendezvous", fault.rendezvous_at_ns(), 0},
      {"group formed", fault.restoring_at_ns(), in_place ? kRendezvousBudget : 0},
      {"state restored", fault.stepping_at_ns(), 0},
      {"first step done", fault.first_step_at_ns(), 0},
      {"first new step done", fault.new_step_at_ns(), 0},
  };
  const int64_t began_ns =
      fault.happened_at_ns() != 0 ? fault.happened_at_ns() : fault.detected_at_ns();
  int64_t before_ns = began_ns;
  for (const auto& stage : kStages) {
    if (stage.at_ns == 0) continue;
    // One worker may enter a stage before the last one has left the one before: that took nothing.
    const int64_t at_ns = std::max(stage.at_ns, before_ns);
    row.stages.push_back({stage.name, static_cast<double>(at_ns - began_ns) * 1e-9,
                          static_cast<double>(at_ns - before_ns) * 1e-9, stage.budget_seconds});
    before_ns = at_ns;
  }
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

double SecondsOf(const std::vector<CategoryRow>& rows, std::string_view name) {
  for (const CategoryRow& row : rows) {
    if (row.name == name) return row.seconds;
  }
  return 0;
}

// The mean number of ranks over the time of the job, by its changes of size: independent of the
// ledger's sums. Where the sizes are incomplete, the ledger's own mean.
double MeanRanks(const proto::JobStatus& status) {
  const double processes = std::max(1u, status.job().processes_per_node());
  const double planned = std::max(1u, status.job().nodes()) * processes;
  const proto::Ledger& ledger = status.ledger();
  if (status.job().maximum_nodes() == 0 || ledger.wall_seconds() <= 0) return planned;
  const bool all =
      status.preemptions() == 0 && status.sizes_size() == static_cast<int>(status.resizes()) + 1;
  if (!all) return std::max(1.0, ledger.rank_seconds() / ledger.wall_seconds());
  double sum = 0;
  double ranks = planned;  // while it waits for its first nodes
  int64_t at_ns = status.submitted_at_ns();
  for (const proto::SizeChange& change : status.sizes()) {
    sum += ranks * static_cast<double>(change.at_ns() - at_ns) * 1e-9;
    at_ns = change.at_ns();
    ranks = change.nodes() * processes;
  }
  const double passed = static_cast<double>(at_ns - status.submitted_at_ns()) * 1e-9;
  sum += ranks * std::max(0.0, ledger.wall_seconds() - passed);
  return sum / ledger.wall_seconds();
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

std::string_view NameOfCategory(proto::Category category) {
  for (const CategoryName& known : kCategories) {
    if (known.category == category) return known.name;
  }
  return "other";
}

Report MakeReport(const proto::JobStatus& status, const RunHistory& history,
                  const RunFacts& facts) {
  Report report;
  report.status = status;
  report.facts = facts;
  report.ranks = std::max(1u, status.job().nodes() * status.job().processes_per_node());
  report.reports_steps = status.job().workload().built_in() || status.highest_step() > 0;
  report.mean_ranks = MeanRanks(status);
  report.categories = CategoriesOf(status.ledger(), report.mean_ranks);
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
