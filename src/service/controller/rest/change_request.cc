#include "service/controller/rest/change_request.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "service/controller/rest/request_body.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ChangeRequest::Kind;

constexpr size_t kMostChanges = 1'000;
constexpr double kLargestAmount = 1e9;

Status TakeNumber(const Json& json, const char* key, std::optional<double>& target) {
  const auto found = json.find(key);
  if (found == json.end()) return {};
  const double value = found->is_number() ? found->get<double>() : NAN;
  // Written so that a NaN is refused too.
  if (value == -1.0 || (value >= 0 && value <= kLargestAmount)) {
    target = value;
    return {};
  }
  return InvalidArgument("\"" + std::string(key) +
                         "\" must be a number up to 1,000,000,000, or -1 for no limit");
}

Status TakeLimit(const Json& json, ChangeRequest& change) {
  static constexpr std::array<std::string_view, 3> kKeys = {"accelerators", "cpu", "memory_gib"};
  const auto limit = json.find("limit");
  if (limit == json.end() || !limit->is_object() || limit->empty()) {
    return InvalidArgument(
        "\"limit\" must be an object with \"accelerators\", \"cpu\" or \"memory_gib\"");
  }
  RETURN_IF_ERROR(RefuseUnknown(*limit, kKeys));
  RETURN_IF_ERROR(TakeNumber(*limit, "accelerators", change.accelerators));
  RETURN_IF_ERROR(TakeNumber(*limit, "cpu", change.cpu));
  return TakeNumber(*limit, "memory_gib", change.memory_gib);
}

Status TakeJob(const Json& json, ChangeRequest& change) {
  const auto nodes = json.find("nodes");
  if (nodes != json.end()) {
    if (!nodes->is_number_unsigned() || nodes->get<uint64_t>() < 1 ||
        nodes->get<uint64_t>() > 1'000'000) {
      return InvalidArgument("\"nodes\" must be a whole number of 1 to 1,000,000");
    }
    change.nodes = nodes->get<uint32_t>();
  }
  if (json.contains("topology")) {
    RETURN_IF_ERROR(TakeText(json, "topology", change.topology.emplace()));
  }
  if (change.nodes || change.topology) return {};
  return InvalidArgument("\"nodes\" or \"topology\" is missing: what is to change of the job");
}

Result<ChangeRequest> ParseChange(const Json& json) {
  static constexpr std::array<std::pair<const char*, Kind>, 6> kKinds = {
      {{"expedite", Kind::kExpedite},
       {"evict", Kind::kEvict},
       {"job", Kind::kJob},
       {"queue", Kind::kLimit},
       {"node", Kind::kNode},
       {"link", Kind::kLink}}};
  static constexpr std::array<std::string_view, 10> kKeys = {
      "expedite", "evict", "job", "queue", "node", "link", "nodes", "topology", "limit", "level"};
  if (!json.is_object()) return InvalidArgument("a change must be an object");
  RETURN_IF_ERROR(RefuseUnknown(json, kKeys));
  ChangeRequest change;
  int kinds = 0;
  for (const auto& [key, kind] : kKinds) {
    if (!json.contains(key)) continue;
    ++kinds;
    change.kind = kind;
    RETURN_IF_ERROR(TakeText(json, key, change.subject));
  }
  if (kinds != 1 || change.subject.empty()) {
    return InvalidArgument(
        "a change names one of \"expedite\", \"evict\", \"job\", \"queue\", \"node\" and "
        "\"link\"");
  }
  if (change.kind == Kind::kJob) RETURN_IF_ERROR(TakeJob(json, change));
  if (change.kind == Kind::kLimit) RETURN_IF_ERROR(TakeLimit(json, change));
  if (change.kind == Kind::kLink) {
    RETURN_IF_ERROR(TakeText(json, "level", change.level));
    if (change.level.empty()) return InvalidArgument("\"level\" of the link's domain is missing");
  }
  return change;
}

std::string NumberText(const Json& number) { return number.dump(); }

// As one word of a shell.
std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string Word(const Json& text) {
  const auto word = text.get<std::string>();
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789-_./") == std::string::npos;
  return plain ? word : Quoted(word);
}

}  // namespace

Result<ChangesRequest> ParseChanges(std::string_view body) {
  static constexpr std::array<std::string_view, 2> kKeys = {"changes", "reason"};
  ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  RETURN_IF_ERROR(RefuseUnknown(json, kKeys));
  ChangesRequest request;
  RETURN_IF_ERROR(TakeText(json, "reason", request.reason));
  const auto changes = json.find("changes");
  if (changes == json.end() || !changes->is_array() || changes->empty() ||
      changes->size() > kMostChanges) {
    return InvalidArgument("\"changes\" must be a list of 1 to 1,000 changes");
  }
  for (const Json& each : *changes) {
    ASSIGN_OR_RETURN(ChangeRequest change, ParseChange(each));
    request.changes.push_back(std::move(change));
  }
  return request;
}

Json ToJson(const proto::Change& change, const proto::Job& before) {
  switch (change.kind_case()) {
    case proto::Change::kExpedite:
      return {{"expedite", change.expedite()}};
    case proto::Change::kEvict:
      return {{"evict", change.evict()}};
    case proto::Change::kJob: {
      Json json = {{"job", change.job().id()}};
      const proto::Job& job = change.job();
      const std::string& topology = job.scheduling().topology();
      if (job.nodes() != before.nodes()) json["nodes"] = job.nodes();
      if (topology != before.scheduling().topology()) {
        json["topology"] = topology.empty() ? "cluster" : topology;
      }
      return json;
    }
    case proto::Change::kLimit: {
      const proto::Amounts& limit = change.limit().limit();
      return {{"queue", change.limit().queue()},
              {"limit",
               {{"accelerators", limit.accelerators()},
                {"cpu", limit.cpu()},
                {"memory_gib", limit.memory_gib()}}}};
    }
    case proto::Change::kUseNode:
      return {{"node", change.use_node()}};
    case proto::Change::kTrustLink:
      return {{"link", change.trust_link().name()}, {"level", change.trust_link().level()}};
    case proto::Change::KIND_NOT_SET:
      break;
  }
  return Json::object();
}

std::string CommandOf(const Json& change) {
  if (change.contains("expedite")) return "longhaul jobs expedite " + Word(change["expedite"]);
  if (change.contains("evict")) return "longhaul jobs evict " + Word(change["evict"]);
  if (change.contains("node")) return "longhaul nodes uncordon " + Word(change["node"]);
  if (change.contains("link")) {
    return "longhaul nodes trust-links " + Word(change["level"]) + " " + Word(change["link"]);
  }
  if (change.contains("job")) {
    std::string command = "longhaul jobs change " + Word(change["job"]);
    if (change.contains("nodes")) command += " --nodes " + NumberText(change["nodes"]);
    if (change.contains("topology")) command += " --topology " + Word(change["topology"]);
    return command;
  }
  if (!change.contains("queue")) return "";
  std::string command = "longhaul queues limit " + Word(change["queue"]);
  const Json& limit = change["limit"];
  if (limit.contains("accelerators"))
    command += " --accelerators " + NumberText(limit["accelerators"]);
  if (limit.contains("cpu")) command += " --cpu " + NumberText(limit["cpu"]);
  if (limit.contains("memory_gib")) command += " --memory-gib " + NumberText(limit["memory_gib"]);
  return command;
}

std::string CommandOfAll(const Json& changes) { return "longhaul apply " + Quoted(changes.dump()); }

}  // namespace longhaul::service
