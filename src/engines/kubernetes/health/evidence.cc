#include "engines/kubernetes/health/evidence.h"

#include <iterator>
#include <utility>

#include "base/text.h"
#include "engines/kubernetes/jobs/json_members.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMostKey = 200;
constexpr size_t kMostDetail = 200;

void Add(Evidence& evidence, const std::string& key, const std::string& detail) {
  if (evidence.size() >= kMostEvidence) return;
  evidence.emplace(Printable(key, kMostKey), Printable(detail, kMostDetail));
}

// The items of a list; of anything else none.
const JobJson& ListAt(const JobJson& object, std::string_view name) {
  static const JobJson kEmpty = JobJson::array();
  const JobJson& list = MemberOf(object, name);
  return list.is_array() ? list : kEmpty;
}

void AddUnhealthyDevices(const JobJson& container, Evidence& evidence) {
  for (const JobJson& resource : ListAt(container, "allocatedResourcesStatus")) {
    const std::string name = TextAt(resource, "name");
    for (const JobJson& device : ListAt(resource, "resources")) {
      if (TextAt(device, "health") != "Unhealthy") continue;
      // The name of a claim differs between the pods that share its device.
      const std::string of = name.starts_with("claim:") ? "" : name + " ";
      Add(evidence, "device " + of + TextAt(device, "resourceID"), TextAt(device, "message"));
    }
  }
}

std::vector<DeviceTaint> ReadTaint(const JobJson& taint) {
  DeviceTaint read{TextAt(taint, "key"), TextAt(taint, "value"), TextAt(taint, "effect")};
  if (read.effect != "NoSchedule" && read.effect != "NoExecute") return {};
  return {std::move(read)};
}

void AddTaints(const TaintedDevice& device, const std::vector<DeviceTaint>& taints,
               Evidence& evidence) {
  for (const DeviceTaint& taint : taints) {
    const std::string value = taint.value.empty() ? "" : "=" + taint.value;
    Add(evidence,
        "device taint " + device.driver + "/" + device.pool + "/" + device.device + " " +
            taint.key + value + ":" + taint.effect,
        "");
  }
}

}  // namespace

Result<ConditionRule> ParseConditionRule(std::string_view text) {
  const size_t equals = text.find('=');
  ConditionRule rule;
  if (equals != text.npos) {
    rule.type = text.substr(0, equals);
    rule.status = text.substr(equals + 1);
  }
  const bool known = rule.status == "True" || rule.status == "False" || rule.status == "Unknown";
  if (rule.type.empty() || rule.type.size() > 316 || !known) {
    return InvalidArgument("condition " + Printable(text) +
                           " is not TYPE=True, TYPE=False or TYPE=Unknown");
  }
  return rule;
}

std::vector<ConditionRule> DefaultConditionRules() {
  return {{"KernelDeadlock", "True"},
          {"ReadonlyFilesystem", "True"},
          {"XfsShutdown", "True"},
          {"CperHardwareErrorFatal", "True"},
          {"FrequentKubeletRestart", "True"},
          {"FrequentContainerdRestart", "True"}};
}

Evidence EvidenceOfConditions(const JobJson& node, const std::vector<ConditionRule>& rules) {
  Evidence evidence;
  for (const JobJson& condition : ListAt(MemberOf(node, "status"), "conditions")) {
    for (const ConditionRule& rule : rules) {
      if (TextAt(condition, "type") != rule.type || TextAt(condition, "status") != rule.status) {
        continue;
      }
      Add(evidence, rule.type + "=" + rule.status, TextAt(condition, "message"));
    }
  }
  return evidence;
}

EvidenceOfNodes EvidenceOfPod(const JobJson& pod) {
  const std::string node = TextAt(MemberOf(pod, "spec"), "nodeName");
  const JobJson& status = MemberOf(pod, "status");
  const std::string phase = TextAt(status, "phase");
  if (node.empty() || phase == "Succeeded" || phase == "Failed") return {};
  Evidence evidence;
  for (const char* const list : {"containerStatuses", "initContainerStatuses"}) {
    for (const JobJson& container : ListAt(status, list)) AddUnhealthyDevices(container, evidence);
  }
  if (evidence.empty()) return {};
  return {{node, std::move(evidence)}};
}

std::vector<TaintedDevice> ReadDevices(const JobJson& slice) {
  const JobJson& spec = MemberOf(slice, "spec");
  const std::string node = TextAt(spec, "nodeName");
  const std::string driver = TextAt(spec, "driver");
  const std::string pool = TextAt(MemberOf(spec, "pool"), "name");
  std::vector<TaintedDevice> devices;
  for (const JobJson& each : ListAt(spec, "devices")) {
    TaintedDevice device{node, driver, pool, TextAt(each, "name"), {}};
    // With perDeviceNodeSelection each device names its own node.
    if (device.node.empty()) device.node = TextAt(each, "nodeName");
    if (device.node.empty()) continue;
    for (const JobJson& taint : ListAt(each, "taints")) {
      for (DeviceTaint& read : ReadTaint(taint)) device.taints.push_back(std::move(read));
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

bool DeviceTaintRule::Matches(const TaintedDevice& of) const {
  return selects && (driver.empty() || driver == of.driver) && (pool.empty() || pool == of.pool) &&
         (device.empty() || device == of.device);
}

DeviceTaintRule ReadDeviceTaintRule(const JobJson& rule) {
  const JobJson& spec = MemberOf(rule, "spec");
  const JobJson& selector = MemberOf(spec, "deviceSelector");
  return {selector.is_object(), TextAt(selector, "driver"), TextAt(selector, "pool"),
          TextAt(selector, "device"), ReadTaint(MemberOf(spec, "taint"))};
}

EvidenceOfNodes EvidenceOfDevices(const std::vector<TaintedDevice>& devices,
                                  const std::map<std::string, DeviceTaintRule>& rules) {
  EvidenceOfNodes nodes;
  for (const TaintedDevice& device : devices) {
    Evidence evidence;
    AddTaints(device, device.taints, evidence);
    for (const auto& [name, rule] : rules) {
      if (rule.Matches(device)) AddTaints(device, rule.taints, evidence);
    }
    if (evidence.empty()) continue;
    for (const auto& [key, detail] : evidence) Add(nodes[device.node], key, detail);
  }
  return nodes;
}

std::set<std::string> EvidenceTable::Set(const std::string& object,
                                         const EvidenceOfNodes& evidence) {
  std::set<std::string> changed;
  const auto known = nodes_of_.find(object);
  if (known != nodes_of_.end()) {
    for (const std::string& node : known->second) {
      const auto at = by_node_.find(node);
      at->second.erase(object);
      if (at->second.empty()) by_node_.erase(at);
    }
    changed = std::move(known->second);
    nodes_of_.erase(known);
  }
  for (const auto& [node, items] : evidence) {
    if (items.empty()) continue;
    by_node_[node][object] = items;
    nodes_of_[object].insert(node);
    changed.insert(node);
  }
  return changed;
}

Evidence EvidenceTable::Of(const std::string& node) const {
  Evidence all;
  const auto found = by_node_.find(node);
  if (found == by_node_.end()) return all;
  for (const auto& [object, items] : found->second) all.insert(items.begin(), items.end());
  while (all.size() > kMostEvidence) all.erase(std::prev(all.end()));
  return all;
}

}  // namespace longhaul::engines::kubernetes
