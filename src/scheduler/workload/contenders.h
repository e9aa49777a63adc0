// The ways to schedule that a simulation compares.
#pragma once

#include <string>
#include <vector>

#include "scheduler/policy.h"

namespace longhaul::scheduler::workload {

// One way to schedule, beside others.
struct Contender {
  std::string name;
  std::string what;  // a line for people
  Policy policy;
  bool tenants_have_queues = true;  // else one queue, first come
};

// Ours with and without reclaim, first-come, EASY, best fit, greedy tree, 5-of-50.
std::vector<Contender> StandardContenders();

}  // namespace longhaul::scheduler::workload
