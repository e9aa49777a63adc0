// How others choose hosts, on the same tables: to compare with, never in production.
//
//   best fit      the fullest hosts first, wherever they are
//   greedy tree   Slurm's topology/tree: the lowest tier with a domain that holds all, there the
//                 fullest such domain; in it the leaves with most room first, hosts in order
//   sampled       kube-scheduler with a topology plug-in: 5 leaves in 50 are looked at, from a
//                 random one on; the first that holds all, fullest first, ties at random; when none
//                 does, hosts of the sampled leaves and then of the others in random order
#pragma once

#include <vector>

#include "base/random.h"
#include "scheduler/gang/equal_tasks.h"
#include "scheduler/policy.h"

namespace longhaul::scheduler::internal {

// Fills `hosts` as PlacementRule says; false when the tasks don't fit under request.required_tier
// and the bounds. Slices are left out: rivals don't know them. Requires rule != kExact.
bool ChooseAsRival(PlacementRule rule, const SlotTable& table, const EqualTasksRequest& request,
                   Random& random, std::vector<HostTasks>& hosts);

}  // namespace longhaul::scheduler::internal
