#include "service/controller/view/run_view.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "proto/json.h"
#include "runtime/controller/controller.h"
#include "runtime/scheduling/elastic.h"
#include "service/controller/view/rank_accelerators.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kNanosecondsPerMs = 1'000'000;
constexpr int kMostShown = 200;  // faults, and rows of nodes
constexpr int kDigits = 6;       // of a number in a curve; a chart has fewer pixels

Json Ms(int64_t at_ns) { return at_ns / kNanosecondsPerMs; }

// Six significant digits: a curve of 512 periods then needs about 15 kB.
double Short(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10.0, kDigits - 1 - std::floor(std::log10(std::fabs(value))));
  return std::isfinite(scale) && scale > 0 ? std::round(value * scale) / scale : value;
}

// Columns, not rows: they are shorter, and what the page draws.
Json SeriesJson(const Series& series) {
  Json json = {{"width_ms", series.width_ms()}};
  for (const char* column : {"index", "step", "first", "min", "max", "last", "not_finite"}) {
    json[column] = Json::array();
  }
  for (const Series::Bucket& bucket : series.buckets()) {
    const bool empty = bucket.finite == 0;
    json["index"].push_back(bucket.index);
    json["step"].push_back(bucket.step);
    json["first"].push_back(empty ? Json() : Json(Short(bucket.first)));
    json["min"].push_back(empty ? Json() : Json(Short(bucket.min)));
    json["max"].push_back(empty ? Json() : Json(Short(bucket.max)));
    json["last"].push_back(empty ? Json() : Json(Short(bucket.last)));
    json["not_finite"].push_back(bucket.not_finite);
  }
  return json;
}

Json FaultJson(const proto::Fault& fault) {
  return {{"number", fault.number()},
          {"what", fault.what()},
          {"class", fault.class_name()},
          {"node", fault.node()},
          {"rank", fault.rank()},
          {"injected", fault.injected()},
          {"action", fault.action()},
          {"lost_steps", fault.lost_steps()},
          {"from_step", fault.from_step()},
          {"happened_at_ms", Ms(fault.happened_at_ns())},
          {"detected_at_ms", Ms(fault.detected_at_ns())},
          {"decided_at_ms", Ms(fault.decided_at_ns())},
          {"first_step_at_ms", Ms(fault.first_step_at_ns())},
          {"new_step_at_ms", Ms(fault.new_step_at_ns())},
          {"lost_rank_seconds", fault.lost_rank_seconds()}};
}

Json NodeJson(const RunViewInput& input, int node_rank) {
  const std::string& name = input.status.gang(node_rank);
  const auto found = input.nodes.find(name);
  const proto::NodeStatus node = found == input.nodes.end() ? proto::NodeStatus() : found->second;
  const uint32_t ranks = input.status.job().processes_per_node();
  return {{"name", name},
          {"condition", found == input.nodes.end() ? "absent" : node.condition()},
          {"connected", node.connected()},
          {"health", node.health()},
          {"last_fault", node.last_fault()},
          {"first_rank", static_cast<uint32_t>(node_rank) * ranks},
          {"ranks", ranks}};
}

Json LedgerJson(const proto::Ledger& ledger) {
  Json json = {{"rank_seconds", ledger.rank_seconds()},
               {"wall_seconds", ledger.wall_seconds()},
               {"goodput", ledger.goodput()},
               {"categories", Json::array()}};
  for (const proto::CategoryTime& each : ledger.categories()) {
    const Json time = proto::ToJson(each);
    json["categories"].push_back(
        {{"category", time["category"]}, {"rank_seconds", time["rank_seconds"]}});
  }
  return json;
}

// The past from the log, and the time since then from the present ledger: so the sum of each
// category is the ledger's. Empty when the log is older than the entries that this needs.
Json SpentTimeJson(const RunViewInput& input) {
  SpentTime spent = input.past.history.spent_time();
  if (spent.empty()) return Json();
  const proto::JobStatus& status = input.status;
  const int64_t from_ms = input.past.history.from_ms();
  if (status.ledger().categories_size() > 0) {
    const int64_t ended_ns = status.ended_at_ns();
    const int64_t at_ns = ended_ns > 0 ? ended_ns : ToNanoseconds(input.now);
    spent.Note(at_ns / kNanosecondsPerMs - from_ms, status.ledger().categories());
  }
  Json json = {{"from_ms", from_ms},
               {"width_ms", spent.width_ms()},
               {"periods", spent.periods()},
               {"categories", Json::array()}};
  for (int i = 0; i < proto::Category_ARRAYSIZE; ++i) {
    if (!proto::Category_IsValid(i)) continue;
    const std::vector<double>& seconds = spent.Of(static_cast<proto::Category>(i));
    if (std::all_of(seconds.begin(), seconds.end(), [](double each) { return each == 0; }))
      continue;
    Json column = Json::array();
    for (const double each : seconds) column.push_back(Short(each));
    proto::CategoryTime named;
    named.set_category(static_cast<proto::Category>(i));
    json["categories"].push_back(
        {{"category", proto::ToJson(named)["category"]}, {"rank_seconds", std::move(column)}});
  }
  return json;
}

// A column is a text of two hexadecimal digits for each group, so that 240 columns of 128 groups
// need 61 kB. Empty when no rank has reported its work.
Json RankWorkJson(const RunViewInput& input) {
  const RankMap& map = input.past.history.rank_map();
  if (map.columns().empty()) return Json();
  Json index = Json::array();
  Json columns = Json::array();
  for (const RankMap::Column& column : map.columns()) {
    constexpr const char* kDigitsOfHex = "0123456789abcdef";
    std::string text;
    for (const uint8_t value : column.values) {
      text += kDigitsOfHex[value >> 4];
      text += kDigitsOfHex[value & 15];
    }
    index.push_back(column.index);
    columns.push_back(std::move(text));
  }
  const proto::RankWork& newest = map.newest();
  const auto ranks =
      static_cast<uint64_t>(input.status.gang_size()) * input.status.job().processes_per_node();
  return {{"from_ms", input.past.history.from_ms()},
          {"width_ms", map.width_ms()},
          {"ranks", std::max<uint64_t>(ranks, static_cast<uint64_t>(newest.work_us_size()))},
          {"ranks_per_group", newest.ranks_per_group()},
          {"median_us", map.median_us()},
          {"slowest", std::vector<uint32_t>(newest.slowest().begin(), newest.slowest().end())},
          {"index", std::move(index)},
          {"columns", std::move(columns)}};
}

Json SnapshotsJson(const RunViewInput& input) {
  Json list = Json::array();
  for (const auto& [name, tier] : input.past.history.tiers()) {
    list.push_back({{"tier", name},
                    {"step", tier.step},
                    {"at_ms", tier.at_ms},
                    {"seconds", tier.seconds},
                    {"bytes", tier.bytes},
                    {"count", tier.count}});
  }
  return list;
}

// What a fault at this moment would lose: the steps since the newest snapshot, and the part of the
// present step. Empty when the run does no steps, or does not report them.
Json LossNowJson(const RunViewInput& input) {
  const proto::JobStatus& status = input.status;
  const int64_t last_step_at_ms = input.past.history.last_step_at_ms();
  if (runtime::IsTerminal(status.state()) || last_step_at_ms == 0) return Json();
  const uint64_t restored =
      std::max({status.memory_step(), status.committed_step(), status.copied_step()});
  const uint64_t steps = status.step() - std::min(status.step(), restored);
  const int64_t since_ms =
      std::max<int64_t>(ToNanoseconds(input.now) / kNanosecondsPerMs - last_step_at_ms, 0);
  const char* tier = restored == 0                         ? "none"
                     : restored == status.memory_step()    ? "memory"
                     : restored == status.committed_step() ? "disk"
                                                           : "second tier";
  return {{"tier", tier},
          {"step", restored},
          {"steps", steps},
          {"seconds", static_cast<double>(steps) * status.seconds_per_step() +
                          static_cast<double>(since_ms) / 1e3}};
}

// Null: the job's number of nodes is fixed.
Json SizeJson(const proto::Job& job) {
  const runtime::NodeBounds bounds = runtime::BoundsAsSubmitted(job);
  if (!bounds.elastic()) return Json();
  return {{"minimum", bounds.minimum},
          {"maximum", bounds.maximum},
          {"step", bounds.step},
          {"limit", runtime::BoundsOf(job).maximum}};
}

Json StatusJson(const RunViewInput& input) {
  const proto::JobStatus& status = input.status;
  const uint64_t total = std::max(input.past.history.total_steps(), status.output_total_steps());
  const uint64_t ranks =
      static_cast<uint64_t>(status.gang_size()) * status.job().processes_per_node();
  const double accelerators = AcceleratorsOfRank(status);
  Json json = RunEntryJson(status);
  json.update({{"reason", status.reason()},
               {"attempt", status.attempt()},
               {"restarts", status.restarts()},
               {"step", status.step()},
               {"highest_step", status.highest_step()},
               {"total_steps", total},
               {"loss", status.loss()},
               {"first_loss", status.first_loss()},
               {"validation_loss", status.validation_loss()},
               {"tokens_per_second", status.tokens_per_second()},
               {"seconds_per_step", status.seconds_per_step()},
               {"predicted_step_seconds", status.job().prediction().step_seconds()},
               {"peak_flops_per_second", status.job().prediction().peak_flops_per_second()},
               {"ranks", ranks},
               {"size", SizeJson(status.job())},
               {"accelerators_per_rank", accelerators > 0 ? Json(accelerators) : Json()},
               {"eta_seconds", status.eta_seconds()},
               {"memory_step", status.memory_step()},
               {"committed_step", status.committed_step()},
               {"copied_step", status.copied_step()},
               {"snapshot_interval_steps", status.snapshot_interval_steps()},
               {"snapshot_interval_reason", status.snapshot_interval_reason()},
               {"run_directory", status.job().run_directory()}});
  return json;
}

Json AllSeriesJson(const RunHistory& history) {
  return {{"from_ms", history.from_ms()},
          {"loss", SeriesJson(history.loss())},
          {"validation_loss", SeriesJson(history.validation_loss())},
          {"tokens_per_second", SeriesJson(history.tokens_per_second())},
          {"flops_per_second", SeriesJson(history.flops_per_second())},
          {"goodput", SeriesJson(history.goodput())}};
}

}  // namespace

Json RunEntryJson(const proto::JobStatus& status) {
  return {{"id", status.job().id()},
          {"name", status.job().name()},
          {"state", proto::ToJson(status)["state"]},
          {"submitted_at_ms", Ms(status.submitted_at_ns())},
          {"ended_at_ms", Ms(status.ended_at_ns())}};
}

Json RunViewJson(const RunViewInput& input) {
  const proto::JobStatus& status = input.status;
  Json faults = Json::array();
  for (int i = std::max(0, status.faults_size() - kMostShown); i < status.faults_size(); ++i) {
    faults.push_back(FaultJson(status.faults(i)));
  }
  Json nodes = Json::array();
  for (int i = 0; i < std::min(kMostShown, status.gang_size()); ++i) {
    nodes.push_back(NodeJson(input, i));
  }
  Json json = {{"version", kViewVersion},
               // A text: an id may be too large for a number of JavaScript.
               {"as_of", std::to_string(input.past.as_of)},
               {"now_ms", Ms(ToNanoseconds(input.now))},
               {"run", StatusJson(input)},
               {"loss_now", LossNowJson(input)},
               {"ledger", LedgerJson(status.ledger())},
               {"spent_time", SpentTimeJson(input)},
               {"rank_work", RankWorkJson(input)},
               {"faults", std::move(faults)},
               {"faults_total", status.faults_size()},
               {"snapshots", SnapshotsJson(input)},
               {"nodes", std::move(nodes)},
               {"nodes_total", status.gang_size()}};
  if (input.with_series) json["series"] = AllSeriesJson(input.past.history);
  return json;
}

}  // namespace longhaul::service
