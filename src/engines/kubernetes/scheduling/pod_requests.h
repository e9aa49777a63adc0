// Units of pods as requests of the scheduler.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/protocol/objects/pod_group.h"
#include "engines/kubernetes/scheduling/cluster_model.h"
#include "engines/kubernetes/scheduling/pod_record.h"
#include "scheduler/scheduler.h"

namespace longhaul::engines::kubernetes {

class PodRequests {
 public:
  // Requires that both outlive this.
  PodRequests(const ClusterModel& model, const std::map<std::string, PodGroup>& groups)
      : model_(model), groups_(groups) {}

  // How many pods of the unit start together.
  int32_t LeastOf(const PodUnit& unit) const;
  // Whether that is known.
  bool GroupIsKnown(const PodUnit& unit) const;

  // The request for these pods, at least one, in the order of their ranks; sets the unit's groups
  // and its members. kFailedPrecondition names what the cluster does not offer.
  Result<scheduler::JobRequest> RequestFor(PodUnit& unit,
                                           const std::vector<PodRecord*>& pods) const;
  // Brings a request of the unit into the terms of the model's last topology, where that is
  // possible; what is not is found when the unit is looked at again.
  void Translate(const PodUnit& unit, scheduler::JobRequest& request) const;

  // Whether an empty cluster could hold the job; `epoch` is that of the topology.
  Status CheckFits(const PodUnit& unit, const scheduler::JobRequest& request,
                   const scheduler::Scheduler& scheduler, uint64_t epoch);

 private:
  const ClusterModel& model_;
  const std::map<std::string, PodGroup>& groups_;
  // Whether single pods of these kinds fit the cluster of `epoch_`; the oldest first.
  std::vector<std::pair<PodUnit::Group, Status>> fits_;
  uint64_t epoch_ = 0;
};

}  // namespace longhaul::engines::kubernetes
