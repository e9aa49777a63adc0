// The nodes that Kueue has chosen for the pods of one set (status.admission of a Workload,
// topologyAssignment of kueue.x-k8s.io/v1beta2).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/jobs/longhaul_job.h"

namespace longhaul::engines::kubernetes {

// Labels of a node, by key.
using NodeLabels = std::map<std::string, std::string>;

// Returns the labels of the node of each pod, in the order of the assignment: its length is
// `count`. kInvalidArgument, with the field's name, for an assignment that is not one of `count`
// pods.
Result<std::vector<NodeLabels>> ReadTopologyAssignment(const JobJson& object, uint32_t count);

}  // namespace longhaul::engines::kubernetes
