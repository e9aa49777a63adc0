#include "engines/kubernetes/scheduling/pod_requests.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::engines::kubernetes {

int32_t PodRequests::LeastOf(const PodUnit& unit) const {
  const auto group = groups_.find(unit.group);
  return std::max(1, group == groups_.end() ? unit.least : group->second.least_pods);
}

bool PodRequests::GroupIsKnown(const PodUnit& unit) const {
  return unit.group.empty() || unit.least > 0 || groups_.contains(unit.group);
}

Result<scheduler::JobRequest> PodRequests::RequestFor(PodUnit& unit,
                                                      const std::vector<PodRecord*>& pods) const {
  CHECK(!pods.empty());
  unit.members.clear();
  unit.groups.clear();
  scheduler::JobRequest request;
  request.id = unit.job;
  request.owner = pods[0]->name.namespace_name;
  request.priority = pods[0]->priority;
  request.preemption = scheduler::Preemption::kRequeue;
  std::vector<std::vector<PodRecord*>> of_group;
  for (PodRecord* pod : pods) {
    request.preempts = request.preempts && pod->preempts;
    request.priority = std::min(request.priority, pod->priority);
    const PodUnit::Group group{pod->needs, pod->rules};
    const auto known = std::find(unit.groups.begin(), unit.groups.end(), group);
    const auto index = static_cast<size_t>(known - unit.groups.begin());
    if (known == unit.groups.end()) {
      ASSIGN_OR_RETURN(const scheduler::Shape shape, model_.ShapeOf(pod->needs, pod->rules));
      unit.groups.push_back(group);
      of_group.emplace_back();
      request.groups.emplace_back().shape = shape;
      request.groups.back().name = "pods like " + pod->name.name;
    }
    of_group[index].push_back(pod);
  }
  if (request.groups.size() > scheduler::kMaxGroups) {
    return FailedPrecondition("its pods are of " + std::to_string(request.groups.size()) +
                              " kinds, and Longhaul starts at most " +
                              std::to_string(scheduler::kMaxGroups) + " together");
  }
  for (size_t g = 0; g < of_group.size(); ++g) {
    scheduler::GroupRequest& group = request.groups[g];
    group.minimum = group.desired = static_cast<int32_t>(of_group[g].size());
    for (const PodRecord* pod : of_group[g]) {
      const auto rank = static_cast<int32_t>(unit.members.size());
      unit.members.push_back({pod->key, static_cast<int32_t>(g), rank, false});
    }
  }
  const auto group = groups_.find(unit.group);
  if (group != groups_.end() && !group->second.topology_key.empty()) {
    const auto tier = model_.TierOf(group->second.topology_key);
    if (!tier) {
      return FailedPrecondition("its PodGroup asks for one domain of the label '" +
                                group->second.topology_key +
                                "', which is no topology label of this scheduler's nodes");
    }
    request.required = *tier;
  }
  return request;
}

void PodRequests::Translate(const PodUnit& unit, scheduler::JobRequest& request) const {
  for (size_t g = 0; g < request.groups.size() && g < unit.groups.size(); ++g) {
    const Result<scheduler::Shape> shape =
        model_.ShapeOf(unit.groups[g].needs, unit.groups[g].rules);
    if (shape.ok()) request.groups[g].shape = *shape;
  }
  const auto group = groups_.find(unit.group);
  if (group == groups_.end() || group->second.topology_key.empty()) return;
  if (const auto tier = model_.TierOf(group->second.topology_key)) request.required = *tier;
}

// Single pods are many, and of few kinds.
Status PodRequests::CheckFits(const PodUnit& unit, const scheduler::JobRequest& request,
                              const scheduler::Scheduler& scheduler, uint64_t epoch) {
  if (!unit.group.empty()) return scheduler.CheckSubmission(request);
  if (epoch_ != epoch) fits_.clear();
  epoch_ = epoch;
  const PodUnit::Group& kind = unit.groups[0];
  const auto known = std::find_if(fits_.begin(), fits_.end(),
                                  [&kind](const auto& entry) { return entry.first == kind; });
  if (known != fits_.end()) return known->second;
  constexpr size_t kMostKinds = 64;
  if (fits_.size() == kMostKinds) fits_.erase(fits_.begin());
  fits_.emplace_back(kind, scheduler.CheckSubmission(request));
  return fits_.back().second;
}

}  // namespace longhaul::engines::kubernetes
