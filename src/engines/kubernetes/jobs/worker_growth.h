// How an elastic job gets workers beyond `desired`, up to `max`.
//
// The workers from `desired` on are extra ones. They are made in groups of `step`, and each group
// is a gang of its own, of the priority class kExtraPriorityClass: its pods preempt no pod, and
// give way to every other one. A group is made only when all workers before it have a node, so that
// at most one group waits for room. The controller of the job uses the workers when they connect,
// and continues without those that it loses (docs/elastic.md).
//
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "engines/kubernetes/jobs/job_pod.h"
#include "engines/kubernetes/jobs/longhaul_job.h"

namespace longhaul::engines::kubernetes {

// The workers that serve, by their index.
using ServingWorkers = std::map<uint32_t, const JobPod*>;

struct GrowthDecision {
  std::vector<uint32_t> missing;     // the indices of the workers to make
  std::vector<const JobPod*> gated;  // the workers whose gates are removed
};

// What is next on the way to `most` workers. Requires that the job trains.
GrowthDecision DecideGrowth(const LonghaulJob& job, uint32_t most, const ServingWorkers& workers);

}  // namespace longhaul::engines::kubernetes
