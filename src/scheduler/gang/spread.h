// Spreading over domains: at most so many tasks in each, and those as even as can be.
//
// The most loaded domain gets as few as possible, then the next, and so on (the lexicographic least
// of the sorted loads), which giving each task to the least loaded domain with room reaches
// exactly. Ties go to the domain with more room left, then to the lower number.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/gang/slot_table.h"

namespace longhaul::scheduler {

struct SpreadAnswer {
  bool placed = false;
  int32_t fits = 0;                 // how many could be placed under the rule, at most `tasks`
  std::vector<int32_t> per_domain;  // new tasks; all zero unless placed
};

// `free` are the slots of each domain, `load` the tasks already there. Requires equal lengths,
// entries >= 0, tasks >= 0 and max_per_domain >= 1.
SpreadAnswer SpreadTasks(std::span<const int32_t> free, std::span<const int32_t> load,
                         int32_t tasks, int32_t max_per_domain);

// The most tasks that one domain of `required_tier` can take now with at most `max_per_domain` in
// each of its domains of `spread_tier`. Requires a spread tier of the tree below the required one,
// which may be kClusterTier, and max_per_domain >= 1.
int32_t LargestSpread(const SlotTable& slots, Tier required_tier, Tier spread_tier,
                      int32_t max_per_domain);

}  // namespace longhaul::scheduler
