// Which hosts a gang of unlike tasks gets: leader and workers, prefill and decode, mixed shapes.
//
// Minimised in this order: domains of the top tier, of each tier below, leaves. A host is a vector
// of free resources, a shape a vector of demands, so tasks of several shapes compete for a host.
// For every count of all shapes but the most numerous one there is an entry that holds the most
// tasks of that last shape: first a host's, then a leaf's (hosts joined one by one), then the
// cluster's for each number of domains (equal_tasks.h), all exact. What the step limit doesn't
// allow is answered by single-shape tables, which bound the domains from below, and a packing of
// the leaves in order, largest first; such an answer says that it is not proven and shows the
// bound.
//
// Left out: the fewest hosts (hosts of the chosen leaves are filled in order), holes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/gang/domain_tree.h"

namespace longhaul::scheduler {

constexpr int32_t kMaxGangShapes = 4;
constexpr int32_t kMaxResources = 6;

using ResourceVector = std::array<int64_t, kMaxResources>;  // unused entries are zero

// A group of equal tasks inside a gang.
struct TaskGroup {
  ResourceVector demand{};
  int32_t tasks = 0;
  int32_t slice = 1;            // every so many tasks of the group lie in one leaf; divides `tasks`
  uint32_t host_classes = ~0u;  // bit c: hosts of class c qualify
};

struct FreeHost {
  ResourceVector free{};
  uint8_t host_class = 0;  // below 32
};

struct UnlikeTasksRequest {
  std::span<const TaskGroup> groups;  // 1 to kMaxGangShapes
  Tier required_tier = kClusterTier;
  int64_t max_steps = 20'000'000;  // of the exact tables; about a nanosecond each
};

struct GroupTasks {
  int32_t host = 0;
  std::array<int32_t, kMaxGangShapes> tasks{};
};

struct UnlikeTasksAnswer {
  bool placed = false;
  bool proven = true;  // domains are the fewest, or "not placed" is certain
  std::array<int32_t, kMaxTiers> domains{};
  // No choice has fewer, compared from the top tier downwards.
  std::array<int32_t, kMaxTiers> bound{};
  std::vector<GroupTasks> tasks;  // ascending by host, hosts with a task only
};

// Requires one entry of `hosts` a host of the tree, free resources >= 0, demands >= 0 and a request
// within the limits above.
UnlikeTasksAnswer PlaceUnlikeTasks(const DomainTree& tree, std::span<const FreeHost> hosts,
                                   const UnlikeTasksRequest& request);

}  // namespace longhaul::scheduler
