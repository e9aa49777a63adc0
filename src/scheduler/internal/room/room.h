// Room for a waiting job: the running jobs that leave or move, and where the job lands then.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/internal/placer.h"
#include "scheduler/victims/victim_search.h"

namespace longhaul::scheduler::internal {

struct ChosenVictim {
  JobNumber job = kNoJob;
  Means means = Means::kEvict;
  std::vector<int32_t> ranks;    // kShrink: those that leave
  std::vector<int32_t> counts;   // kMove: its tasks, by group
  std::vector<uint64_t> models;  // kMove: as Bounds::models
};

struct Room {
  bool found = false;
  bool proven = true;  // no set of stops costs less; where none was found: there is none
  int64_t cost_gpu_ms = 0;
  std::vector<ChosenVictim> victims;
  Bounds bounds;  // where the waiting job lands
  int64_t steps = 0;
};

}  // namespace longhaul::scheduler::internal
