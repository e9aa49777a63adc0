// Kueue's Workload (kueue.x-k8s.io/v1beta2) of a job, as the operator reads it: what the job asks
// of a queue, and how far Kueue has admitted it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/jobs/kueue/topology_assignment.h"
#include "engines/kubernetes/jobs/longhaul_job.h"

namespace longhaul::engines::kubernetes {

// The annotation with what the job asked for when the Workload was made, as a number.
inline constexpr std::string_view kRequestAnnotation = "longhaul.dev/request";

// What Kueue has assigned to the pods of one set.
struct PodSetAssignment {
  std::string name;
  uint32_t count = 0;
  std::map<std::string, std::string> flavors;  // name of the ResourceFlavor, by resource
  std::vector<NodeLabels> nodes;  // of each pod, where Kueue has chosen them; else empty
};

struct Workload {
  std::string namespace_name;
  std::string name;
  std::string uid;
  std::string version;  // resourceVersion
  std::string owner_uid;
  std::string request;  // kRequestAnnotation
  std::string priority_class;
  bool being_deleted = false;
  bool active = true;  // spec.active; false: Kueue gives it no quota

  bool reserved = false;  // has quota: from then on until the quota is given back
  bool admitted = false;
  bool evicted = false;
  bool finished = false;
  bool pods_ready = false;
  std::string wait;             // why it has no quota; may be empty
  std::string eviction_reason;  // one word
  std::string eviction_message;
  std::vector<PodSetAssignment> assignments;
  JobJson conditions;  // as they are stored

  std::string Key() const { return namespace_name + "/" + name; }
};

// Reads an object of the API. kInvalidArgument, with the field's name, for one that Kueue's
// definition would have refused.
Result<Workload> ReadWorkload(const JobJson& object);

}  // namespace longhaul::engines::kubernetes
