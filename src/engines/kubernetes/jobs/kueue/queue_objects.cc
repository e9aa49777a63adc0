#include "engines/kubernetes/jobs/kueue/queue_objects.h"

#include <algorithm>
#include <cmath>

#include "engines/kubernetes/jobs/json_members.h"

namespace longhaul::engines::kubernetes {
namespace {

std::string PodPriorityClass(const LonghaulJob& job) {
  return TextAt(MemberOf(job.pod_template, "spec"), "priorityClassName");
}

}  // namespace

Result<PriorityClass> ReadPriorityClass(PriorityKind kind, const JobJson& object) {
  PriorityClass priority;
  priority.kind = kind;
  priority.name = TextAt(MemberOf(object, "metadata"), "name");
  if (priority.name.empty()) return InvalidArgument("metadata.name: expected a text");
  const JobJson& value = MemberOf(object, "value");
  const double number = value.is_number_integer() ? value.get<double>() : HUGE_VAL;
  const bool fits = number >= INT32_MIN && number <= INT32_MAX;
  if (!fits) return InvalidArgument("value: expected a number of 32 bits");
  priority.value = value.get<int32_t>();
  priority.is_default = MemberOf(object, "globalDefault") == true;
  return priority;
}

Result<ResourceFlavor> ReadResourceFlavor(const JobJson& object) {
  ResourceFlavor flavor;
  flavor.name = TextAt(MemberOf(object, "metadata"), "name");
  if (flavor.name.empty()) return InvalidArgument("metadata.name: expected a text");
  const JobJson& spec = MemberOf(object, "spec");
  const JobJson& labels = MemberOf(spec, "nodeLabels");
  if (!labels.is_null() && !labels.is_object()) {
    return InvalidArgument("spec.nodeLabels: expected an object");
  }
  for (const auto& [key, value] : labels.items()) {
    if (!value.is_string()) return InvalidArgument("spec.nodeLabels." + key + ": expected a text");
    flavor.placement.labels[key] = value.get<std::string>();
  }
  const JobJson& tolerations = MemberOf(spec, "tolerations");
  if (tolerations.is_null()) return flavor;
  if (!tolerations.is_array()) return InvalidArgument("spec.tolerations: expected a list");
  flavor.placement.tolerations = tolerations;
  return flavor;
}

Result<PodPlacement> QueueObjects::PlacementOf(const PodSetAssignment& assignment) const {
  PodPlacement placement;
  for (const auto& [resource, name] : assignment.flavors) {
    const auto flavor = flavors_.find(name);
    if (flavor == flavors_.end()) return NotFound("the ResourceFlavor " + name);
    for (const auto& [key, value] : flavor->second.labels) placement.labels[key] = value;
    for (const JobJson& toleration : flavor->second.tolerations) {
      const auto& all = placement.tolerations;
      if (std::find(all.begin(), all.end(), toleration) != all.end()) continue;
      placement.tolerations.push_back(toleration);
    }
  }
  return placement;
}

Result<std::optional<PriorityClass>> QueueObjects::PriorityOf(const LonghaulJob& job) const {
  const bool own = !job.queue_priority.empty();
  const PriorityKind kind = own ? PriorityKind::kWorkload : PriorityKind::kPod;
  const std::string name = own ? job.queue_priority : PodPriorityClass(job);
  if (!name.empty()) {
    const auto found = priorities_.find({kind, name});
    if (found != priorities_.end()) return std::optional(found->second);
    return NotFound(std::string(own ? "the WorkloadPriorityClass " : "the PriorityClass ") + name);
  }
  for (const auto& [key, priority] : priorities_) {
    if (priority.kind == PriorityKind::kPod && priority.is_default) return std::optional(priority);
  }
  return std::optional<PriorityClass>();
}

}  // namespace longhaul::engines::kubernetes
