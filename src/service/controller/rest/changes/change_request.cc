#include "service/controller/rest/changes/change_request.h"

#include <algorithm>
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
constexpr size_t kMostDevices = 16;  // as many as a job file may name
constexpr size_t kMostNameBytes = 63;
constexpr uint64_t kMostNodes = 100'000;  // of a slice or a domain, as in a job file

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

// {MODEL: NUMBER, ...}
Status TakeDeviceLimits(const Json& limit, ChangeRequest& change) {
  const auto devices = limit.find("devices");
  if (devices == limit.end()) return {};
  if (!devices->is_object() || devices->empty() || devices->size() > spec::kMaxQuotaModels) {
    return InvalidArgument("\"devices\" must be an object of 1 to " +
                           std::to_string(spec::kMaxQuotaModels) +
                           " device models such as {\"h100\": 8}");
  }
  for (const auto& [model, amount] : devices->items()) {
    std::optional<double> taken;
    RETURN_IF_ERROR(TakeNumber(*devices, model.c_str(), taken));
    change.device_limits[model] = *taken;
  }
  return {};
}

Status TakeLimit(const Json& json, ChangeRequest& change) {
  static constexpr std::array<std::string_view, 4> kKeys = {"accelerators", "cpu", "memory_gib",
                                                            "devices"};
  const auto limit = json.find("limit");
  if (limit == json.end() || !limit->is_object() || limit->empty()) {
    return InvalidArgument(
        "\"limit\" must be an object with \"accelerators\", \"cpu\", \"memory_gib\" or "
        "\"devices\"");
  }
  RETURN_IF_ERROR(RefuseUnknown(*limit, kKeys));
  RETURN_IF_ERROR(TakeNumber(*limit, "accelerators", change.accelerators));
  RETURN_IF_ERROR(TakeNumber(*limit, "cpu", change.cpu));
  RETURN_IF_ERROR(TakeDeviceLimits(*limit, change));
  return TakeNumber(*limit, "memory_gib", change.memory_gib);
}

// An empty list is different from an absent one: it allows any model.
Status TakeDevices(const Json& json, ChangeRequest& change) {
  const auto devices = json.find("devices");
  if (devices == json.end()) return {};
  const Status refused = InvalidArgument(
      "\"devices\" must be a list of at most 16 device models, each of 1 to 63 bytes");
  if (!devices->is_array() || devices->size() > kMostDevices) return refused;
  change.devices.emplace();
  for (const Json& name : *devices) {
    const std::string text = name.is_string() ? name.get<std::string>() : "";
    if (text.empty() || text.size() > kMostNameBytes) return refused;
    change.devices->push_back(text);
  }
  return {};
}

// A level, or {"level", "at_most"?}
Status TakeSpread(const Json& json, spec::SpreadSpec& spread) {
  static constexpr std::array<std::string_view, 2> kKeys = {"level", "at_most"};
  const auto found = json.find("spread");
  if (found == json.end()) return {};
  if (!found->is_object()) {
    RETURN_IF_ERROR(TakeText(json, "spread", spread.level));
    return spread.level.empty() ? InvalidArgument("\"spread\" must name a level") : Status();
  }
  RETURN_IF_ERROR(RefuseUnknown(*found, kKeys));
  RETURN_IF_ERROR(TakeText(*found, "level", spread.level));
  if (spread.level.empty()) return InvalidArgument("\"level\" of the spread is missing");
  const auto most = found->find("at_most");
  if (most == found->end()) return {};
  if (!most->is_number_unsigned() || most->get<uint64_t>() < 1 ||
      most->get<uint64_t>() > kMostNodes) {
    return InvalidArgument("\"at_most\" of the spread must be a whole number of 1 to 100,000");
  }
  spread.at_most = most->get<uint32_t>();
  return {};
}

// {"required"?, "preferred"?, "slice"?: {"nodes", "level"}, "rail_aligned"?, "spread"?}
Status TakeRules(const Json& json, spec::TopologySpec& rules) {
  static constexpr std::array<std::string_view, 5> kKeys = {"required", "preferred", "slice",
                                                            "rail_aligned", "spread"};
  static constexpr std::array<std::string_view, 2> kSliceKeys = {"nodes", "level"};
  RETURN_IF_ERROR(RefuseUnknown(json, kKeys));
  RETURN_IF_ERROR(TakeText(json, "required", rules.required));
  RETURN_IF_ERROR(TakeText(json, "preferred", rules.preferred));
  if (const auto slice = json.find("slice"); slice != json.end()) {
    const bool whole =
        slice->is_object() && slice->contains("nodes") && (*slice)["nodes"].is_number_unsigned() &&
        (*slice)["nodes"].get<uint64_t>() >= 2 && (*slice)["nodes"].get<uint64_t>() <= kMostNodes;
    if (!whole) {
      return InvalidArgument(
          "\"slice\" must be an object with \"nodes\", 2 to 100,000, and \"level\"");
    }
    RETURN_IF_ERROR(RefuseUnknown(*slice, kSliceKeys));
    rules.slice.nodes = (*slice)["nodes"].get<uint32_t>();
    RETURN_IF_ERROR(TakeText(*slice, "level", rules.slice.level));
    if (rules.slice.level.empty()) return InvalidArgument("\"level\" of the slice is missing");
  }
  if (const auto aligned = json.find("rail_aligned"); aligned != json.end()) {
    if (!aligned->is_boolean()) return InvalidArgument("\"rail_aligned\" must be true or false");
    rules.rail_aligned = aligned->get<bool>();
  }
  return TakeSpread(json, rules.spread);
}

Status TakeTopology(const Json& json, ChangeRequest& change) {
  const auto topology = json.find("topology");
  if (topology == json.end()) return {};
  if (topology->is_object()) return TakeRules(*topology, change.rules.emplace());
  return TakeText(json, "topology", change.topology.emplace());
}

// As TakeTopology reads it: a text when only the required level differs from `before`.
// The shorter form where it suffices, so that the proposed command is easy to read.
Json TopologyJson(const proto::Scheduling& now, const proto::Scheduling& before) {
  const std::string required = now.topology().empty() ? "cluster" : now.topology();
  const bool same =
      now.preferred_topology() == before.preferred_topology() &&
      now.slice_nodes() == before.slice_nodes() && now.slice_level() == before.slice_level() &&
      now.rail_aligned() == before.rail_aligned() && now.spread_level() == before.spread_level() &&
      now.spread_at_most() == before.spread_at_most();
  if (same) return now.topology() == before.topology() ? Json() : Json(required);
  Json json = {{"required", required}};
  if (!now.preferred_topology().empty()) json["preferred"] = now.preferred_topology();
  if (now.slice_nodes() > 0) {
    json["slice"] = {{"nodes", now.slice_nodes()}, {"level", now.slice_level()}};
  }
  if (now.rail_aligned()) json["rail_aligned"] = true;
  if (now.spread_at_most() > 0) {
    json["spread"] = {{"level", now.spread_level()}, {"at_most", now.spread_at_most()}};
  } else if (!now.spread_level().empty()) {
    json["spread"] = now.spread_level();
  }
  return json;
}

Status TakeNodes(const Json& json, ChangeRequest& change) {
  const auto nodes = json.find("nodes");
  if (nodes == json.end()) return {};
  if (!nodes->is_number_unsigned() || nodes->get<uint64_t>() < 1 ||
      nodes->get<uint64_t>() > 1'000'000) {
    return InvalidArgument("\"nodes\" must be a whole number of 1 to 1,000,000");
  }
  change.nodes = nodes->get<uint32_t>();
  return {};
}

Status TakeJob(const Json& json, ChangeRequest& change) {
  RETURN_IF_ERROR(TakeNodes(json, change));
  RETURN_IF_ERROR(TakeTopology(json, change));
  RETURN_IF_ERROR(TakeDevices(json, change));
  const auto mixed = json.find("mixed_devices");
  if (mixed != json.end()) {
    if (!mixed->is_boolean()) return InvalidArgument("\"mixed_devices\" must be true or false");
    change.mixed_devices = mixed->get<bool>();
  }
  if (change.nodes || change.topology || change.rules || change.devices || change.mixed_devices) {
    return {};
  }
  return InvalidArgument(
      "\"nodes\", \"topology\", \"devices\" or \"mixed_devices\" is missing: what is to change of "
      "the job");
}

// Exactly one of the keys in kKinds says what is changed. Keys that do not belong to the kind are
// accepted and have no effect.
Result<ChangeRequest> ParseChange(const Json& json) {
  static constexpr std::array<std::pair<const char*, Kind>, 8> kKinds = {
      {{"expedite", Kind::kExpedite},
       {"evict", Kind::kEvict},
       {"scale", Kind::kScale},
       {"job", Kind::kJob},
       {"queue", Kind::kLimit},
       {"node", Kind::kNode},
       {"link", Kind::kLink},
       {"release", Kind::kRelease}}};
  static constexpr std::array<std::string_view, 14> kKeys = {
      "expedite", "evict",    "scale",   "job",           "queue", "node",  "link",
      "nodes",    "topology", "devices", "mixed_devices", "limit", "level", "release"};
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
        "a change names one of \"expedite\", \"evict\", \"scale\", \"job\", \"queue\", "
        "\"node\", \"link\" and \"release\"");
  }
  if (change.kind == Kind::kJob) RETURN_IF_ERROR(TakeJob(json, change));
  if (change.kind == Kind::kScale) {
    RETURN_IF_ERROR(TakeNodes(json, change));
    if (!change.nodes) return InvalidArgument("\"nodes\" is missing: the most it may have");
  }
  if (change.kind == Kind::kLimit) RETURN_IF_ERROR(TakeLimit(json, change));
  if (change.kind == Kind::kLink) {
    RETURN_IF_ERROR(TakeText(json, "level", change.level));
    if (change.level.empty()) return InvalidArgument("\"level\" of the link's domain is missing");
  }
  return change;
}

std::string NumberText(const Json& number) { return number.dump(); }

// As one word of a shell.
// Commands are shown for copying into a shell, and names come from users, so everything that is not
// plain is quoted.
std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string Word(const Json& text) {
  const std::string word = text.is_string() ? text.get<std::string>() : text.dump();
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789-_./") == std::string::npos;
  return plain ? word : Quoted(word);
}

}  // namespace

// Changes of jobs are the operator's; limits, nodes and links concern all users.
Role RoleFor(ChangeRequest::Kind kind) {
  switch (kind) {
    case ChangeRequest::Kind::kExpedite:
    case ChangeRequest::Kind::kEvict:
    case ChangeRequest::Kind::kScale:
    case ChangeRequest::Kind::kJob:
    case ChangeRequest::Kind::kRelease:
      return Role::kOperate;
    case ChangeRequest::Kind::kLimit:
    case ChangeRequest::Kind::kNode:
    case ChangeRequest::Kind::kLink:
      return Role::kAdminister;
  }
  return Role::kAdminister;
}

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
    case proto::Change::kScale:
      return {{"scale", change.scale().job_id()}, {"nodes", change.scale().nodes()}};
    // Only what differs from `before`: a key that is absent leaves the job's value as it is.
    case proto::Change::kJob: {
      Json json = {{"job", change.job().id()}};
      const proto::Job& job = change.job();
      if (job.nodes() != before.nodes()) json["nodes"] = job.nodes();
      Json topology = TopologyJson(job.scheduling(), before.scheduling());
      if (!topology.is_null()) json["topology"] = std::move(topology);
      const auto& devices = job.scheduling().devices();
      const auto& devices_before = before.scheduling().devices();
      if (!std::equal(devices.begin(), devices.end(), devices_before.begin(),
                      devices_before.end())) {
        json["devices"] = Json::array();
        for (const std::string& name : devices) json["devices"].push_back(name);
      }
      const bool mixed = job.scheduling().mixed_devices();
      if (mixed != before.scheduling().mixed_devices()) json["mixed_devices"] = mixed;
      return json;
    }
    case proto::Change::kLimit: {
      const proto::Amounts& limit = change.limit().limit();
      Json amounts = {{"accelerators", limit.accelerators()},
                      {"cpu", limit.cpu()},
                      {"memory_gib", limit.memory_gib()}};
      for (const proto::DeviceAmount& device : limit.devices()) {
        amounts["devices"][device.model()] = device.accelerators();
      }
      return {{"queue", change.limit().queue()}, {"limit", std::move(amounts)}};
    }
    case proto::Change::kUseNode:
      return {{"node", change.use_node()}};
    case proto::Change::kTrustLink:
      return {{"link", change.trust_link().name()}, {"level", change.trust_link().level()}};
    case proto::Change::kRelease:
      return {{"release", change.release()}};
    case proto::Change::kReserve:  // POST /v1/reservations makes these
    case proto::Change::kCancelReservation:
    case proto::Change::KIND_NOT_SET:
      break;
  }
  return Json::object();
}

std::string CommandOf(const Json& change) {
  if (change.contains("expedite")) return "longhaul jobs expedite " + Word(change["expedite"]);
  if (change.contains("evict")) return "longhaul jobs evict " + Word(change["evict"]);
  if (change.contains("scale")) {
    return "longhaul jobs scale " + Word(change["scale"]) + " " + NumberText(change["nodes"]);
  }
  if (change.contains("release")) return "longhaul jobs release " + Word(change["release"]);
  if (change.contains("node")) return "longhaul nodes uncordon " + Word(change["node"]);
  if (change.contains("link")) {
    return "longhaul nodes trust-links " + Word(change["level"]) + " " + Word(change["link"]);
  }
  if (change.contains("job")) {
    std::string command = "longhaul jobs change " + Word(change["job"]);
    if (change.contains("nodes")) command += " --nodes " + NumberText(change["nodes"]);
    if (change.contains("topology")) command += " --topology " + Word(change["topology"]);
    if (change.contains("devices")) {
      if (change["devices"].empty()) command += " --devices any";
      for (const Json& name : change["devices"]) command += " --devices " + Word(name);
    }
    if (change.contains("mixed_devices")) {
      command += change["mixed_devices"].get<bool>() ? " --mixed-devices" : " --one-device-model";
    }
    return command;
  }
  if (!change.contains("queue")) return "";
  std::string command = "longhaul queues limit " + Word(change["queue"]);
  const Json& limit = change["limit"];
  if (limit.contains("accelerators"))
    command += " --accelerators " + NumberText(limit["accelerators"]);
  if (limit.contains("cpu")) command += " --cpu " + NumberText(limit["cpu"]);
  if (limit.contains("memory_gib")) command += " --memory-gib " + NumberText(limit["memory_gib"]);
  if (!limit.contains("devices")) return command;
  for (const auto& [model, amount] : limit["devices"].items()) {
    command += " --devices " + Word(model + "=" + NumberText(amount));
  }
  return command;
}

std::string CommandOfAll(const Json& changes) { return "longhaul apply " + Quoted(changes.dump()); }

}  // namespace longhaul::service
