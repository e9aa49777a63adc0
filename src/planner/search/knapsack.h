// Which parts to compute again so that a stage fits, at the least time.
//
// A stage must free some bytes. Each module of its layers (norms, FFN, attention, ...) frees so
// many bytes and costs so many seconds in every layer where it is recomputed, so a choice is a
// number of layers for each module: the bounded knapsack with a covering constraint (Kellerer,
// Pferschy and Pisinger, Knapsack Problems, 2004, section 13.3.3). Solved exactly by branch and
// bound over modules in the order of seconds a byte, bounded by filling the rest fractionally; a
// stage has a handful of modules, so it takes microseconds. Stages are chosen for one by one: each
// at its least time makes the pipeline's step least, as that never falls when a stage gets slower.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace longhaul::planner::search {

struct RecomputeItem {
  double seconds = 0;   // of one layer, for all micro-batches of a step
  int64_t bytes = 0;    // freed in one layer
  uint32_t layers = 0;  // at most so many
};

struct RecomputePlan {
  std::vector<uint32_t> layers;  // of each item
  double seconds = 0;
  int64_t bytes = 0;  // freed
};

// The plan of least seconds that frees at least `needed`; of equals the first in the order of
// items with fewer layers. Nothing where all together free too little. Requires seconds and bytes
// of at least 0.
std::optional<RecomputePlan> ChooseRecompute(std::span<const RecomputeItem> items, int64_t needed);

}  // namespace longhaul::planner::search
