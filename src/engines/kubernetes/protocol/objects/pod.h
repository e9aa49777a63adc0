// What a scheduler requires of a pod.
//
// The reader keeps about thirty fields of the many that a pod has. It does not interpret pod
// affinity, topology spread constraints and preferred node affinity: it reports their names in
// `uninterpreted`, so that a scheduler can refuse the pod and name the field. In-place resizing
// (status.allocatedResources) is left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/protocol/objects/node_selector.h"
#include "engines/kubernetes/protocol/objects/object_meta.h"
#include "engines/kubernetes/protocol/objects/resource_list.h"

namespace longhaul::engines::kubernetes {

enum class PodPhase { kPending, kRunning, kSucceeded, kFailed, kUnknown };

struct Toleration {
  std::string key;      // empty with kExists: every taint
  bool exists = false;  // operator Exists: every value of the key
  std::string value;
  std::string effect;              // empty: every effect
  std::optional<int64_t> seconds;  // how long a NoExecute taint is tolerated; none: without limit
};

// The health that a device plugin reports for one device of a container.
struct DeviceHealth {
  std::string container;
  std::string resource;  // "nvidia.com/gpu"
  std::string device_id;
  std::string health;  // Healthy, Unhealthy, Unknown
};

struct HostPort {
  int32_t port = 0;
  std::string protocol;  // empty: TCP
  std::string host_ip;   // empty: every address
};

struct PodCondition {
  std::string type;  // PodScheduled, DisruptionTarget
  bool is_true = false;
  std::string reason;
  std::string message;
};

struct Pod {
  ObjectMeta meta;

  std::string scheduler_name;
  std::string node_name;  // empty: not bound
  int32_t priority = 0;
  bool preempts_never = false;                // preemptionPolicy: Never
  std::vector<std::string> scheduling_gates;  // not empty: it must not be bound yet
  std::string pod_group;                      // spec.schedulingGroup.podGroupName
  Labels node_selector;
  std::vector<Toleration> tolerations;
  // One of the terms must hold; no value: every node.
  std::optional<std::vector<NodeSelectorTerm>> required_node_terms;
  std::vector<std::string> uninterpreted;  // fields that restrict the node and are not read
  std::vector<HostPort> host_ports;
  std::vector<std::string> volume_claims;  // names of PersistentVolumeClaims
  // Names of those that are made for this pod alone (volumes[].ephemeral).
  std::vector<std::string> ephemeral_claims;
  size_t resource_claims = 0;  // spec.resourceClaims (dynamic resource allocation)
  int64_t termination_grace_seconds = 30;

  // What the pod occupies on a node: the containers and the sidecars together or, if that is more,
  // an init container with the sidecars before it; with the overhead added.
  ResourceList requests;

  PodPhase phase = PodPhase::kPending;
  std::string reason;                    // status.reason, such as OutOfnvidia.com/gpu
  std::vector<PodCondition> conditions;  // PodScheduled and DisruptionTarget only
  std::vector<DeviceHealth> device_health;

  // Finished pods occupy nothing.
  bool finished() const { return phase == PodPhase::kSucceeded || phase == PodPhase::kFailed; }
};

// Reads a pod. kInvalidArgument, with the field's name, when a field has the wrong type, a quantity
// is malformed, or name, namespace or resourceVersion is missing.
Result<Pod> ReadPod(JsonParser& parser, PaddedText json);
// The same for a pod whose metadata has been read already, which saves the time for that part.
Result<Pod> ReadPodWithMeta(JsonParser& parser, PaddedText json, ObjectMeta meta);

}  // namespace longhaul::engines::kubernetes
