// Carries the state of a scheduler over into another cluster, other queues or another policy.
//
// Everything that decides later is taken along: jobs with their numbers, places, stages and times,
// lines with what they were last tried against, reservations, decayed usage, learnt durations, the
// mix of arrivals, health, losses of leaves, voluntary moves. Where nodes and queues are the same,
// the new state decides from then on as the old one would have. Where they differ, what is named by
// number is found again by name: tasks on nodes that are gone are lost, reservations in domains
// that are gone are planned anew, and what waits is tried anew.
//
// Leaves out what can be worked out again (tables, the largest sizes) and, when shapes are too many
// to keep, the mix of arrivals.
#pragma once

#include <functional>

#include "scheduler/internal/scheduler_state.h"

namespace longhaul::scheduler::internal {

// Fills a fresh state. `change` may bring each request into the new cluster's terms.
void TakeOver(const SchedulerState& before, SchedulerState& state,
              const std::function<void(JobRequest&)>& change = {});

}  // namespace longhaul::scheduler::internal
