// Evidence that a node is unhealthy: what others have written into objects of the API.
//
//   conditions of the node         such as those of node-problem-detector
//   the status of pods             the health that the kubelet reports of each allocated device
//                                  (containerStatuses[].allocatedResourcesStatus)
//   ResourceSlices                 devices with a taint NoSchedule or NoExecute (DRA)
//   DeviceTaintRules               the same taints, given by an administrator or a controller
//
// Pure, and every object is read as if somebody hostile had written it: what has another form is
// left out, texts are cut, and one object gives at most kMostEvidence items. Devices that belong to
// no single node (slices with a node selector) are left out.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/jobs/longhaul_job.h"

namespace longhaul::engines::kubernetes {

// Enough for each device of a large node to appear once in each kind of source.
inline constexpr size_t kMostEvidence = 64;

// By key, which names the fault and its device and is the same in each object that reports it. The
// value is a detail for people, which may be empty.
using Evidence = std::map<std::string, std::string>;
// Keys are texts that people read: "KernelDeadlock=True", "device nvidia.com/gpu GPU-8a1f".
using EvidenceOfNodes = std::map<std::string, Evidence>;  // by the node's name

// A node condition that is evidence.
struct ConditionRule {
  std::string type;
  std::string status;  // True, False or Unknown
};
// "TYPE=STATUS". kInvalidArgument for another form.
Result<ConditionRule> ParseConditionRule(std::string_view text);
// Those of node-problem-detector's configuration (config/kernel-monitor.json,
// readonly-monitor.json, systemd-monitor.json and their counters) that a restart of pods cannot
// cure.
std::vector<ConditionRule> DefaultConditionRules();

// `node` is a Node. Its conditions that match a rule.
Evidence EvidenceOfConditions(const JobJson& node, const std::vector<ConditionRule>& rules);
// `pod` is a Pod that is bound to a node: its devices that are Unhealthy. A pod that has ended or
// is not bound gives none.
EvidenceOfNodes EvidenceOfPod(const JobJson& pod);

// A device taint that keeps pods away from the device.
struct DeviceTaint {
  std::string key;
  std::string value;
  std::string effect;
};
struct TaintedDevice {
  std::string node;
  std::string driver;
  std::string pool;
  std::string device;
  std::vector<DeviceTaint> taints;  // of the slice itself; may be empty
};
// The devices of a ResourceSlice that belong to a node.
std::vector<TaintedDevice> ReadDevices(const JobJson& slice);

// A DeviceTaintRule. An absent text in the selector matches every one; without a selector no
// device is matched.
struct DeviceTaintRule {
  bool selects = false;
  std::string driver;
  std::string pool;
  std::string device;
  std::vector<DeviceTaint> taints;  // one, or none where its effect keeps no pod away

  bool Matches(const TaintedDevice& of) const;
};
DeviceTaintRule ReadDeviceTaintRule(const JobJson& rule);
// With the taints of the rules.
EvidenceOfNodes EvidenceOfDevices(const std::vector<TaintedDevice>& devices,
                                  const std::map<std::string, DeviceTaintRule>& rules);

// The evidence of all objects, by node. An object is named by a text of the caller.
class EvidenceTable {
 public:
  // Replaces what the object gave before. Returns the nodes whose evidence may have changed.
  std::set<std::string> Set(const std::string& object, const EvidenceOfNodes& evidence);
  // At most kMostEvidence items, the first ones by key.
  Evidence Of(const std::string& node) const;

 private:
  std::map<std::string, std::set<std::string>> nodes_of_;  // by object
  std::map<std::string, std::map<std::string, Evidence>> by_node_;
};

}  // namespace longhaul::engines::kubernetes
