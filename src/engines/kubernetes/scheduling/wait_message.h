// Why a pod is not bound, in words for its owner.
#pragma once

#include <string>

#include "engines/kubernetes/scheduling/cluster_model.h"
#include "engines/kubernetes/scheduling/pod_record.h"
#include "engines/kubernetes/scheduling/pod_requests.h"
#include "engines/kubernetes/scheduling/pod_table.h"
#include "scheduler/scheduler.h"

namespace longhaul::engines::kubernetes {

// The unit is the pod's; `scheduler` is null while there are no nodes.
std::string WaitMessage(const PodRecord& pod, const PodUnit& unit, const PodTable& pods,
                        const PodRequests& requests, const scheduler::Scheduler* scheduler);

}  // namespace longhaul::engines::kubernetes
