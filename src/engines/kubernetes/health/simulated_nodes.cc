#include "engines/kubernetes/health/simulated_nodes.h"

#include <utility>

#include "base/check.h"

namespace longhaul::engines::kubernetes {
namespace {

const std::string kProgram(kHealthManager);
constexpr const char* kMerge = "application/merge-patch+json";
constexpr const char* kStrategic = "application/strategic-merge-patch+json";

ApiRequest RequestOf(const std::string& method, const std::string& target, const Json& body,
                     const std::string& type) {
  ApiRequest request = RequestFor(method, target, body.is_null() ? "" : body.dump());
  request.content_type = type;
  return request;
}

bool Unschedulable(const Json& node) { return node["spec"].value("unschedulable", false); }

std::string RecordOf(const Json& node) {
  return node["metadata"].value("annotations", Json::object()).value(kCordonAnnotation, "");
}

std::set<std::string> KeysOf(const std::string& record) {
  const auto read = ReadCordonRecord(record);
  return read ? read->evidence : std::set<std::string>();
}

std::set<std::string> TaintsOf(const Json& node, bool others_only) {
  std::set<std::string> taints;
  for (const Json& taint : node["spec"].value("taints", Json::array())) {
    const std::string key = taint.value("key", "");
    if (!others_only || key != kHealthTaint) taints.insert(key);
  }
  return taints;
}

}  // namespace

SimulatedNodes::SimulatedNodes(int nodes, NodeLimit limit)
    : limit_(limit), nodes_(static_cast<size_t>(nodes)) {
  for (int i = 0; i < nodes; ++i) {
    const Json node = {{"metadata", {{"name", "n" + std::to_string(i)}}},
                       {"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}};
    CHECK(api_.Handle(RequestOf("POST", "/api/v1/nodes", node, "application/json")).status == 201);
  }
}

Json SimulatedNodes::Node(const std::string& name) const {
  const Json* node = api_.Find("nodes", {"", name});
  return node == nullptr ? Json() : *node;
}

Json SimulatedNodes::Health(const std::string& name) const {
  for (const Json& condition : Node(name)["status"].value("conditions", Json::array())) {
    if (condition.value("type", "") == kHealthCondition) return condition;
  }
  return {};
}

bool SimulatedNodes::IsCordoned(const std::string& name) const { return Unschedulable(Node(name)); }

std::string SimulatedNodes::Record(const std::string& name) const { return RecordOf(Node(name)); }

std::set<std::string> SimulatedNodes::Taints(const std::string& name) const {
  return TaintsOf(Node(name), false);
}

std::multiset<std::string> SimulatedNodes::EventReasons() const {
  std::multiset<std::string> reasons;
  for (const ObjectName& name : api_.Names("events")) {
    reasons.insert(api_.Find("events", name)->value("reason", ""));
  }
  return reasons;
}

void SimulatedNodes::SetCondition(const std::string& node, const std::string& type, bool is_true) {
  const Json condition = {{"type", type}, {"status", is_true ? "True" : "False"}};
  Patch("detector", "/api/v1/nodes/" + node + "/status",
        {{"status", {{"conditions", Json::array({condition})}}}}, kStrategic);
}

void SimulatedNodes::SetDevice(const std::string& pod, const std::string& node,
                               const std::string& health) {
  const std::string pods = "/api/v1/namespaces/default/pods";
  if (api_.Find("pods", {"default", pod}) == nullptr) {
    const Json object = {{"metadata", {{"name", pod}}},
                         {"spec",
                          {{"nodeName", node},
                           {"containers", Json::array({{{"name", "main"}, {"image", "none"}}})}}}};
    CHECK(api_.Handle(RequestOf("POST", pods, object, "application/json")).status == 201);
  }
  const Json device = {{"resourceID", "GPU-" + pod}, {"health", health}};
  const Json resource = {{"name", "nvidia.com/gpu"}, {"resources", Json::array({device})}};
  const Json container = {{"name", "main"}, {"allocatedResourcesStatus", Json::array({resource})}};
  Patch("kubelet", pods + "/" + pod + "/status",
        {{"status", {{"phase", "Running"}, {"containerStatuses", Json::array({container})}}}},
        kMerge);
}

void SimulatedNodes::RemovePod(const std::string& pod) { api_.Remove("pods", {"default", pod}); }

void SimulatedNodes::UserCordons(const std::string& node, bool cordon) {
  Patch("kubectl", "/api/v1/nodes/" + node,
        {{"spec", {{"unschedulable", cordon ? Json(true) : Json()}}}}, kMerge);
}

void SimulatedNodes::UserTaints(const std::string& node, const std::string& key) {
  Json taints = Node(node)["spec"].value("taints", Json::array());
  taints.push_back({{"key", key}, {"effect", "NoSchedule"}});
  Patch("kubectl", "/api/v1/nodes/" + node, {{"spec", {{"taints", taints}}}}, kMerge);
}

void SimulatedNodes::Touch(const std::string& node) {
  const Json version = Node(node)["metadata"]["resourceVersion"];
  Patch("kubelet", "/api/v1/nodes/" + node, {{"metadata", {{"labels", {{"touched", version}}}}}},
        kMerge);
}

// As the API server, records in managedFields who has changed spec.unschedulable.
ApiResponse SimulatedNodes::Patch(const std::string& manager, const std::string& target, Json body,
                                  const std::string& type) {
  const std::string path = target.substr(0, target.find('?'));
  if (!path.starts_with("/api/v1/nodes/") || path.ends_with("/status")) {
    return api_.Handle(RequestOf("PATCH", target, body, type));
  }
  const std::string name = path.substr(path.rfind('/') + 1);
  const Json before = Node(name);
  if (before.is_null()) return api_.Handle(RequestOf("PATCH", target, body, type));
  const Json& spec = body.value("spec", Json::object());
  if (spec.contains("unschedulable")) {
    const bool after = spec["unschedulable"] == true;
    if (after != Unschedulable(before)) {
      const Json fields = {{"f:spec", {{"f:unschedulable", Json::object()}}}};
      body["metadata"]["managedFields"] =
          after ? Json::array({{{"manager", manager}, {"fieldsV1", fields}}}) : Json::array();
    }
  }
  ApiResponse response = api_.Handle(RequestOf("PATCH", target, body, type));
  if (response.status != 200) return response;
  const Json after = Node(name);
  if (manager == kProgram) Check(name, before, after);
  if (Unschedulable(before) != Unschedulable(after)) {
    if (manager != kProgram && cordoner_[name] == kProgram) {
      overruled_[name] = KeysOf(RecordOf(before));
    }
    cordoner_[name] = Unschedulable(after) ? manager : "";
  }
  return response;
}

void SimulatedNodes::Check(const std::string& name, const Json& before, const Json& after) {
  const auto violation = [&](const std::string& what) { violations_ += name + ": " + what + "\n"; };
  if (TaintsOf(before, true) != TaintsOf(after, true)) violation("changed taints of others");
  if (RecordOf(after).empty()) overruled_.erase(name);
  if (Unschedulable(before) && !Unschedulable(after)) {
    ++uncordons_;
    if (cordoner_[name] != kProgram) violation("uncordoned another's cordon");
  }
  if (!Unschedulable(before) && Unschedulable(after)) {
    ++cordons_;
    if (OurCordons().size() >= limit_.Of(nodes_)) violation("cordoned more than the limit");
    const auto known = overruled_.find(name);
    const std::set<std::string> keys = KeysOf(RecordOf(after));
    if (keys.empty()) violation("cordoned without a record");
    if (known != overruled_.end() && known->second == keys) {
      violation("cordoned again for the same evidence");
    }
    overruled_.erase(name);
  }
}

std::set<std::string> SimulatedNodes::OurCordons() const {
  std::set<std::string> ours;
  for (const auto& [name, manager] : cordoner_) {
    if (manager == kProgram) ours.insert(name);
  }
  return ours;
}

ApiResponse SimulatedNodes::Serve(const Call& call) {
  const Json body = Json::parse(call.body);
  if (call.method == "PATCH") return Patch(kProgram, call.target, body, call.content_type);
  return api_.Handle(RequestOf(call.method, call.target, body, "application/json"));
}

bool SimulatedNodes::HasEvidence(const std::string& name) const {
  if (!EvidenceOfConditions(JobJson::parse(Node(name).dump()), DefaultConditionRules()).empty()) {
    return true;
  }
  for (const ObjectName& pod : api_.Names("pods")) {
    const auto evidence = EvidenceOfPod(JobJson::parse(api_.Find("pods", pod)->dump()));
    if (evidence.contains(name)) return true;
  }
  return false;
}

std::string SimulatedNodes::AtRest() const {
  std::string wrong;
  const std::set<std::string> ours = OurCordons();
  for (const ObjectName& object : api_.Names("nodes")) {
    const std::string& name = object.name;
    const Json health = Health(name);
    const std::string status = health.is_null() ? "" : health.value("status", "");
    const bool has_record = !Record(name).empty();
    if (!HasEvidence(name)) {
      if (status == "False") wrong += name + ": is reported as unhealthy\n";
      if (has_record) wrong += name + ": has a record\n";
      if (ours.contains(name)) wrong += name + ": is cordoned\n";
      continue;
    }
    if (status != "False") wrong += name + ": is not reported as unhealthy\n";
    if (ours.contains(name) && !has_record) wrong += name + ": has no record\n";
    const std::string reason = health.is_null() ? "" : health.value("reason", "");
    const std::string expected = ours.contains(name) ? "Cordoned"
                                 : IsCordoned(name)  ? "CordonedByOthers"
                                 : has_record        ? "UncordonedByOthers"
                                                     : "LimitReached";
    // A node with a record may also have evidence that is new, and no place within the limit.
    const bool full = ours.size() >= limit_.Of(nodes_);
    const bool fits = reason == expected ||
                      (expected == "UncordonedByOthers" && reason == "LimitReached" && full);
    if (!fits) wrong += name + ": reason " + reason + ", expected " + expected + "\n";
    if (reason == "LimitReached" && !full) wrong += name + ": the limit is not reached\n";
  }
  return wrong;
}

}  // namespace longhaul::engines::kubernetes
