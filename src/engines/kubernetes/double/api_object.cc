#include "engines/kubernetes/double/api_object.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "engines/kubernetes/protocol/objects/quantity.h"

namespace longhaul::engines::kubernetes {
namespace {

const std::array<ResourceInfo, 13> kResources = {{
    {Pods(), "Pod", true},
    {Nodes(), "Node", false},
    {Leases(), "Lease", false},
    {VolumeClaims(), "PersistentVolumeClaim", false},
    {Volumes(), "PersistentVolume", false},
    {StorageClasses(), "StorageClass", false},
    {{"", "v1", "configmaps", true}, "ConfigMap", false},
    {{"", "v1", "events", true}, "Event", false},
    // The same objects as those of the core group, as on the server.
    {{"events.k8s.io", "v1", "events", true}, "Event", false},
    {{"kueue.x-k8s.io", "v1beta2", "workloads", true}, "Workload", true},
    {{"longhaul.dev", "v1", "longhauljobs", true}, "LonghaulJob", true},
    {{"policy", "v1", "poddisruptionbudgets", true}, "PodDisruptionBudget", true},
    {{"scheduling.x-k8s.io", "v1alpha1", "podgroups", true}, "PodGroup", true},
}};

// The form in which the server writes a quantity: the largest suffix of its family without a
// fraction.
std::string Canonical(const std::string& text) {
  const Result<Quantity> quantity = Quantity::Parse(text);
  // Exponents keep their form; exa is written with the same letter, and does not occur in the
  // tests.
  if (!quantity.ok() || text.find_first_of("eE") != text.npos) return text;
  const bool binary = text.ends_with('i');
  if (!quantity->is_whole()) return ToString(*quantity);
  int64_t units = quantity->RoundedUpUnits();
  constexpr std::string_view kSuffixes = "kMGTPE";
  const int64_t base = binary ? 1024 : 1000;
  size_t steps = 0;
  while (units != 0 && units % base == 0 && steps < kSuffixes.size()) {
    units /= base;
    ++steps;
  }
  std::string written = std::to_string(units);
  if (steps > 0) written += binary && steps == 1 ? 'K' : kSuffixes[steps - 1];
  return binary && steps > 0 ? written + "i" : written;
}

void CanonicaliseResources(Json& list) {
  if (!list.is_object()) return;
  for (auto& [name, quantity] : list.items()) {
    if (quantity.is_string()) quantity = Canonical(quantity);
  }
}

void Default(Json& object, const std::string& key, const Json& value) {
  if (!object.contains(key)) object[key] = value;
}

void SetContainerDefaults(Json& container) {
  const std::string image = container.value("image", "");
  const bool tagged = image.find(':') != image.npos && !image.ends_with(":latest");
  Default(container, "imagePullPolicy", tagged ? "IfNotPresent" : "Always");
  Default(container, "resources", Json::object());
  Default(container, "terminationMessagePath", "/dev/termination-log");
  Default(container, "terminationMessagePolicy", "File");
  Json& resources = container["resources"];
  if (resources.contains("limits")) {
    // A request that is absent is as large as the limit.
    Json requests = resources["limits"];
    requests.update(resources.value("requests", Json::object()));
    resources["requests"] = requests;
    CanonicaliseResources(resources["limits"]);
  }
  if (resources.contains("requests")) CanonicaliseResources(resources["requests"]);
}

// Guaranteed pods do not occur in the tests.
std::string QosClass(const Json& spec) {
  for (const Json& container : spec.value("containers", Json::array())) {
    const Json requests = container["resources"].value("requests", Json::object());
    if (requests.contains("cpu") || requests.contains("memory")) return "Burstable";
  }
  return "BestEffort";
}

void SetPodDefaults(Json& pod, const std::string& now) {
  Json& spec = pod["spec"];
  for (Json& container : spec["containers"]) SetContainerDefaults(container);
  Default(spec, "dnsPolicy", "ClusterFirst");
  Default(spec, "enableServiceLinks", true);
  Default(spec, "preemptionPolicy", "PreemptLowerPriority");
  Default(spec, "priority", 0);
  Default(spec, "restartPolicy", "Always");
  Default(spec, "schedulerName", "default-scheduler");
  Default(spec, "securityContext", Json::object());
  Default(spec, "terminationGracePeriodSeconds", 30);
  Default(spec, "tolerations", Json::array());
  for (const char* const key : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    const bool tolerated =
        std::any_of(spec["tolerations"].begin(), spec["tolerations"].end(),
                    [key](const Json& toleration) { return toleration.value("key", "") == key; });
    if (tolerated) continue;
    spec["tolerations"].push_back({{"effect", "NoExecute"},
                                   {"key", key},
                                   {"operator", "Exists"},
                                   {"tolerationSeconds", 300}});
  }
  if (!pod.contains("status")) {
    pod["status"] = {{"phase", "Pending"}, {"qosClass", QosClass(spec)}};
    if (!spec.value("schedulingGates", Json::array()).empty()) {
      SetCondition(pod, {{"type", "PodScheduled"},
                         {"status", "False"},
                         {"reason", "SchedulingGated"},
                         {"lastProbeTime", nullptr},
                         {"lastTransitionTime", now},
                         {"message", "Scheduling is blocked due to non-empty scheduling gates"}});
    }
  }
  if (!pod["status"].contains("conditions")) return;
  for (Json& condition : pod["status"]["conditions"]) {
    Default(condition, "lastProbeTime", nullptr);
    Default(condition, "lastTransitionTime", nullptr);
  }
}

void SetNodeDefaults(Json& node) {
  Default(node, "spec", Json::object());
  Default(node, "status", Json::object());
  Json& status = node["status"];
  Default(status, "daemonEndpoints", {{"kubeletEndpoint", {{"Port", 0}}}});
  if (!status.contains("nodeInfo")) {
    for (const char* const key :
         {"architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion",
          "kubeletVersion", "machineID", "operatingSystem", "osImage", "systemUUID"}) {
      status["nodeInfo"][key] = "";
    }
  }
  for (const char* const key : {"capacity", "allocatable"}) {
    if (status.contains(key)) CanonicaliseResources(status[key]);
  }
  if (!status.contains("conditions")) return;
  for (Json& condition : status["conditions"]) {
    Default(condition, "lastHeartbeatTime", nullptr);
    Default(condition, "lastTransitionTime", nullptr);
  }
}

bool IsSubdomain(const std::string& name) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= 253 && fits(name.front()) && fits(name.back()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return fits(c) || c == '-' || c == '.'; });
}

// One requirement of a selector with the value that the object has.
bool Matches(std::string_view requirement, const std::map<std::string, std::string>& values) {
  const size_t equals = requirement.find('=');
  if (equals == requirement.npos) {
    const bool absent = requirement.starts_with('!');
    if (absent) requirement.remove_prefix(1);
    return values.contains(std::string(requirement)) != absent;
  }
  const bool differs = equals > 0 && requirement[equals - 1] == '!';
  const std::string key(requirement.substr(0, equals - (differs ? 1 : 0)));
  std::string_view wanted = requirement.substr(equals + 1);
  if (wanted.starts_with('=')) wanted.remove_prefix(1);
  const auto found = values.find(key);
  return (found != values.end() && found->second == wanted) != differs;
}

}  // namespace

const ResourceInfo* FindResource(std::string_view group, std::string_view version,
                                 std::string_view plural) {
  for (const ResourceInfo& info : kResources) {
    if (info.resource.group == group && info.resource.version == version &&
        info.resource.plural == plural) {
      return &info;
    }
  }
  return nullptr;
}

Json StatusJson(const Refusal& refusal) {
  Json status = {{"kind", "Status"},    {"apiVersion", "v1"},         {"metadata", Json::object()},
                 {"status", "Failure"}, {"message", refusal.message}, {"reason", refusal.reason},
                 {"code", refusal.code}};
  if (!refusal.details.is_null()) status["details"] = refusal.details;
  return status;
}

Json SuccessJson(int code) {
  return {{"kind", "Status"},
          {"apiVersion", "v1"},
          {"metadata", Json::object()},
          {"status", "Success"},
          {"code", code}};
}

Refusal NotFoundRefusal(const ResourceInfo& info, const std::string& name) {
  const std::string group = info.resource.group.empty() ? "" : "." + info.resource.group;
  Json details = {{"kind", info.resource.plural}, {"name", name}};
  if (!info.resource.group.empty()) details["group"] = info.resource.group;
  return {404, "NotFound", info.resource.plural + group + " \"" + name + "\" not found",
          std::move(details)};
}

Refusal AlreadyExistsRefusal(const ResourceInfo& info, const std::string& name) {
  Refusal refusal = NotFoundRefusal(info, name);
  refusal.code = 409;
  refusal.reason = "AlreadyExists";
  refusal.message.replace(refusal.message.rfind("not found"), refusal.message.npos,
                          "already exists");
  return refusal;
}

Refusal ConflictRefusal(const std::string& kind, const std::string& name, const std::string& why) {
  return {409,
          "Conflict",
          "Operation cannot be fulfilled on " + kind + " \"" + name + "\": " + why,
          {{"kind", kind}, {"name", name}}};
}

Refusal InvalidRefusal(const ResourceInfo& info, const std::string& name, const std::string& field,
                       const std::string& reason, const std::string& why) {
  const std::string& group = info.resource.group;
  Json details = {{"kind", info.kind},
                  {"name", name},
                  {"causes", {{{"field", field}, {"reason", reason}, {"message", why}}}}};
  if (!group.empty()) details["group"] = group;
  return {422, "Invalid",
          info.kind + (group.empty() ? "" : "." + group) + " \"" + name +
              "\" is invalid: " + field + ": " + why,
          std::move(details)};
}

void SetDefaults(const ResourceInfo& info, Json& object, const std::string& now) {
  if (info.kind == "Pod") SetPodDefaults(object, now);
  if (info.kind == "Node") SetNodeDefaults(object);
}

std::optional<Refusal> CheckNew(const ResourceInfo& info, const Json& object) {
  const std::string name = object["metadata"].value("name", "");
  if (IsSubdomain(name)) return std::nullopt;
  return InvalidRefusal(
      info, name, "metadata.name", "FieldValueInvalid",
      "Invalid value: \"" + name +
          "\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
          "'-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
          "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*"
          "[a-z0-9])?)*')");
}

std::optional<Refusal> CheckChange(const ResourceInfo& info, const Json& before,
                                   const Json& after) {
  const std::string name = before["metadata"]["name"];
  if (info.kind == "Lease") {
    const Json seconds = after.value("spec", Json::object()).value("leaseDurationSeconds", Json(1));
    if (!seconds.is_number() || seconds > 0) return std::nullopt;
    return InvalidRefusal(info, name, "spec.leaseDurationSeconds", "FieldValueInvalid",
                          "Invalid value: " + seconds.dump() + ": must be greater than 0");
  }
  if (info.kind != "Pod") return std::nullopt;
  const Json old_gates = before["spec"].value("schedulingGates", Json::array());
  const Json new_gates = after["spec"].value("schedulingGates", Json::array());
  for (size_t i = 0; i < new_gates.size(); ++i) {
    if (std::find(old_gates.begin(), old_gates.end(), new_gates[i]) != old_gates.end()) continue;
    return InvalidRefusal(info, name, "spec.schedulingGates[" + std::to_string(i) + "].name",
                          "FieldValueForbidden",
                          "Forbidden: only deletion is allowed, but found new scheduling gate '" +
                              new_gates[i].value("name", "") + "'");
  }
  if (before["spec"].value("nodeName", "") == after["spec"].value("nodeName", "")) {
    return std::nullopt;
  }
  return InvalidRefusal(
      info, name, "spec", "FieldValueForbidden",
      "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
      "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
      "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
      "to 1 if it was previously negative)");
}

void SetCondition(Json& object, Json condition) {
  Json& conditions = object["status"]["conditions"];
  if (!conditions.is_array()) conditions = Json::array();
  for (Json& present : conditions) {
    if (present.value("type", "") != condition.value("type", "")) continue;
    present = std::move(condition);
    return;
  }
  conditions.push_back(std::move(condition));
}

bool MatchesLabels(const Json& object, std::string_view selector) {
  if (selector.empty()) return true;
  const auto labels = object["metadata"].value("labels", std::map<std::string, std::string>());
  const std::vector<std::string_view> parts = Split(selector, ',');
  return std::all_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return Matches(part, labels); });
}

std::string TextAt(const Json& object, std::initializer_list<std::string_view> keys) {
  const Json* at = &object;
  for (const std::string_view key : keys) {
    if (!at->is_object()) return {};
    const auto found = at->find(key);
    if (found == at->end()) return {};
    at = &*found;
  }
  return at->is_string() ? at->get<std::string>() : std::string();
}

bool MatchesFields(const Json& object, std::string_view selector) {
  if (selector.empty()) return true;
  std::map<std::string, std::string> fields;
  for (const auto& [part, key] :
       {std::pair("metadata", "name"), std::pair("metadata", "namespace"),
        std::pair("spec", "nodeName"), std::pair("spec", "schedulerName"),
        std::pair("spec", "unschedulable"), std::pair("status", "phase")}) {
    fields[std::string(part) + "." + key] = TextAt(object, {part, key});
  }
  const std::vector<std::string_view> parts = Split(selector, ',');
  return std::all_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return Matches(part, fields); });
}

}  // namespace longhaul::engines::kubernetes
