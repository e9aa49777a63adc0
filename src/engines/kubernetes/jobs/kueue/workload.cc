#include "engines/kubernetes/jobs/kueue/workload.h"

#include <utility>

#include "engines/kubernetes/jobs/json_members.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMostPodSets = 8;  // as in Kueue's definition
constexpr int kMostPods = 100'000;  // of a LonghaulJob

bool IsTrue(const JobJson& conditions, std::string_view type) {
  return TextAt(ConditionIn(conditions, type), "status") == "True";
}

Result<PodSetAssignment> ReadAssignment(const JobJson& object) {
  PodSetAssignment assignment;
  assignment.name = TextAt(object, "name");
  if (assignment.name.empty()) return InvalidArgument("expected a name");
  const JobJson& count = MemberOf(object, "count");
  if (!count.is_null()) {
    if (!count.is_number_integer() || count < 0 || count > kMostPods) {
      return InvalidArgument("count: expected a number from 0 to 100000");
    }
    assignment.count = count.get<uint32_t>();
  }
  const JobJson& flavors = MemberOf(object, "flavors");
  if (!flavors.is_null() && !flavors.is_object()) {
    return InvalidArgument("flavors: expected an object");
  }
  for (const auto& [resource, flavor] : flavors.items()) {
    if (!flavor.is_string()) return InvalidArgument("flavors." + resource + ": expected a text");
    assignment.flavors[resource] = flavor.get<std::string>();
  }
  const JobJson& topology = MemberOf(object, "topologyAssignment");
  if (topology.is_null()) return assignment;
  Result<std::vector<NodeLabels>> nodes = ReadTopologyAssignment(topology, assignment.count);
  if (!nodes.ok()) return nodes.status().WithContext("topologyAssignment");
  assignment.nodes = *std::move(nodes);
  return assignment;
}

Status ReadAdmission(const JobJson& admission, Workload& workload) {
  const std::string path = "status.admission";
  if (admission.is_null()) return {};
  if (!admission.is_object()) return InvalidArgument(path + ": expected an object");
  const JobJson& assignments = MemberOf(admission, "podSetAssignments");
  if (!assignments.is_array() || assignments.size() > kMostPodSets) {
    return InvalidArgument(path + ".podSetAssignments: expected a list of at most " +
                           std::to_string(kMostPodSets));
  }
  for (const JobJson& each : assignments) {
    Result<PodSetAssignment> assignment = ReadAssignment(each);
    if (!assignment.ok()) return assignment.status().WithContext(path + ".podSetAssignments");
    workload.assignments.push_back(*std::move(assignment));
  }
  return {};
}

}  // namespace

Result<Workload> ReadWorkload(const JobJson& object) {
  Workload workload;
  const JobJson& meta = MemberOf(object, "metadata");
  workload.namespace_name = TextAt(meta, "namespace");
  workload.name = TextAt(meta, "name");
  workload.uid = TextAt(meta, "uid");
  workload.version = TextAt(meta, "resourceVersion");
  if (workload.name.empty() || workload.uid.empty()) {
    return InvalidArgument("metadata: expected a name and a uid");
  }
  workload.owner_uid = ControllerUid(meta);
  workload.request = TextAt(MemberOf(meta, "annotations"), kRequestAnnotation);
  workload.being_deleted = !TextAt(meta, "deletionTimestamp").empty();
  const JobJson& spec = MemberOf(object, "spec");
  workload.priority_class = TextAt(MemberOf(spec, "priorityClassRef"), "name");
  workload.active = MemberOf(spec, "active") != false;

  const JobJson& status = MemberOf(object, "status");
  RETURN_IF_ERROR(ReadAdmission(MemberOf(status, "admission"), workload));
  const JobJson& conditions = MemberOf(status, "conditions");
  if (!conditions.is_null() && !conditions.is_array()) {
    return InvalidArgument("status.conditions: expected a list");
  }
  workload.conditions = conditions;
  const bool has_admission = MemberOf(status, "admission").is_object();
  const bool has_quota = IsTrue(conditions, "QuotaReserved");
  workload.reserved = has_admission || has_quota;
  workload.admitted = has_admission && has_quota && IsTrue(conditions, "Admitted");
  workload.finished = IsTrue(conditions, "Finished");
  workload.pods_ready = IsTrue(conditions, "PodsReady");
  const JobJson& evicted = ConditionIn(conditions, "Evicted");
  workload.evicted = TextAt(evicted, "status") == "True";
  workload.eviction_reason = TextAt(evicted, "reason");
  workload.eviction_message = TextAt(evicted, "message");
  // A workload that has quota may wait for Kueue's admission checks.
  const char* missing = has_quota ? "Admitted" : "QuotaReserved";
  workload.wait = TextAt(ConditionIn(conditions, missing), "message");
  return workload;
}

}  // namespace longhaul::engines::kubernetes
