#include "frontend/report/report_json.h"

#include <cmath>

#include "base/format.h"
#include "base/text.h"
#include "frontend/live_view.h"
#include "frontend/report/report_words.h"
#include "proto/events.pb.h"
#include "proto/json.h"
#include "proto/state_name.h"

namespace longhaul::frontend {
namespace {

using Json = nlohmann::ordered_json;

Json WarningsJson(const Report& report) {
  Json rows = Json::array();
  for (const WarningRow& row : report.warnings) {
    rows.push_back({{"after_seconds", row.after_seconds},
                    {"severity", row.error ? "error" : "warning"},
                    {"text", row.text},
                    {"times", row.times}});
  }
  return rows;
}

Json HooksJson(const RunFacts& facts) {
  Json rows = Json::array();
  for (const HookRow& row : facts.hooks) {
    rows.push_back({{"name", row.name},
                    {"delivered", row.delivered},
                    {"failed", row.failed},
                    {"dropped", row.dropped},
                    {"last_error", row.last_error}});
  }
  return rows;
}

Json FaultJson(const FaultRow& row) {
  Json json = proto::ToJson(row.fault);
  json["cost_seconds"] = row.cost_seconds;
  json["recovery_seconds"] =
      row.recovery_seconds.has_value() ? Json(*row.recovery_seconds) : Json();
  Json stages = Json::array();
  for (const story::FaultStage& stage : row.stages) {
    stages.push_back({{"name", stage.name},
                      {"after_seconds", stage.at_seconds},
                      {"took_seconds", stage.took_seconds},
                      {"budget_seconds", stage.budget_seconds}});
  }
  json["stages"] = stages;
  return json;
}

Json FaultsJson(const Report& report) {
  Json faults = Json::array();
  for (const FaultRow& row : report.faults) faults.push_back(FaultJson(row));
  return faults;
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

Json SizesJson(const proto::JobStatus& status) {
  Json sizes = Json::array();
  for (const proto::SizeChange& change : status.sizes()) {
    sizes.push_back(
        {{"seconds", static_cast<double>(change.at_ns() - status.submitted_at_ns()) * 1e-9},
         {"nodes", change.nodes()},
         {"attempt", change.attempt()},
         {"reason", change.reason()}});
  }
  return sizes;
}

Json LedgerJson(const Report& report) {
  Json categories = Json::object();
  for (const story::CategoryRow& row : report.categories) {
    categories[row.name] = {{"seconds", row.seconds}, {"share", row.share}};
  }
  return {{"categories", categories},
          {"sum_seconds", report.ledger.sum_seconds},
          {"measured_seconds", report.ledger.measured_seconds},
          {"difference", report.ledger.difference},
          {"tolerance", kLedgerTolerance},
          {"allowed_seconds", report.ledger.allowed_seconds},
          {"holds", report.ledger.holds}};
}

}  // namespace

Json ReportJson(const Report& report) {
  const proto::JobStatus& status = report.status;
  const RunFacts& facts = report.facts;
  const auto or_null = [](const std::optional<double>& number) {
    return number.has_value() ? Json(*number) : Json();
  };
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
      {"faults", FaultsJson(report)},
      {"warnings", WarningsJson(report)},
      {"hooks", HooksJson(facts)},
      {"missed_faults", report.missed_faults},
      {"missed_faults_reason", report.missed_reason},
      {"restarts", status.restarts()},
      {"snapshots",
       {{"in_memory", status.snapshots()},
        {"on_disk", status.commits()},
        {"blocked_seconds_mean", status.snapshot_blocked_seconds()},
        {"blocked_seconds", report.snapshot_seconds},
        {"by_way",
         {{"copied", SnapshotsBy(status, proto::COPIED)},
          {"guarded", SnapshotsBy(status, proto::GUARDED)},
          {"forked", SnapshotsBy(status, proto::FORKED)}}},
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
      "step,attempt,seconds,loss,validation_loss,gradient_norm,tokens_per_second,step_seconds\n";
  for (const StepPoint& point : history.steps) {
    csv += std::to_string(point.step) + "," + std::to_string(point.attempt) + "," +
           Decimal(static_cast<double>(point.at_ns - submitted_at_ns) * 1e-9, 3) + "," +
           (std::isnan(point.loss) ? "" : Decimal(point.loss, 6)) + "," +
           (point.validation_loss.has_value() ? Decimal(*point.validation_loss, 6) : "") + "," +
           Decimal(point.gradient_norm, 6) + "," + Decimal(point.tokens_per_second, 1) + "," +
           Decimal(point.step_seconds, 6) + "\n";
  }
  return csv;
}

}  // namespace longhaul::frontend
