// A group of pods that start together.
//
// Two resources have this name and purpose: that of the scheduler plugins, which Kubeflow Trainer
// writes (scheduling.x-k8s.io/v1alpha1, spec.minMember), and that of Kubernetes
// (scheduling.k8s.io/v1beta1, spec.schedulingPolicy.gang.minCount or .basic).
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "engines/kubernetes/protocol/objects/object_meta.h"

namespace longhaul::engines::kubernetes {

struct PodGroup {
  ObjectMeta meta;
  int32_t least_pods = 1;    // that start together; 1 for a group that is no gang
  std::string topology_key;  // the label of the nodes that all pods share; empty: none
};

// Reads a group of either resource. kInvalidArgument, with the field's name, when a field has the
// wrong type, or name, namespace or resourceVersion is missing.
Result<PodGroup> ReadPodGroup(JsonParser& parser, PaddedText json);

}  // namespace longhaul::engines::kubernetes
