// Continues in place on a topology with further nodes: what a rebuild (adoption.h) would give, at a
// cost that does not grow with the requests of the jobs.
//
// A node that joins changes nothing for jobs, lines and queues but numbers of nodes and domains. So
// they stay as they are, and only what is named by number is renumbered. As after a rebuild, what
// waits is tried anew and each line makes its promises anew. Tasks keep their slots, which a
// rebuild would number anew; no decision depends on these numbers.
//
// Leaves out every other change: fewer nodes, other device models, classes or levels, nodes in
// other domains, and other kinds of nodes that have tasks. adoption.h is for those.
#pragma once

#include <memory>

#include "scheduler/internal/scheduler_core.h"

namespace longhaul::scheduler::internal {

// Returns false, with the core as it was, if the topology differs by more than further nodes and
// other kinds of nodes without tasks, if a queue may have more than the cluster loses, or if the
// shapes are so many that a rebuild would drop some.
bool Extend(SchedulerCore& core, std::shared_ptr<const spec::Topology> topology);

}  // namespace longhaul::scheduler::internal
