// The constants of small jobs' placement, in one place, each with its reason.
//
// Chosen on reasons and on lists resampled from the published ones with other seeds (../replay).
// There, in points of allocation at 100 % arrival: half or twice the packing weight changes less
// than 0.05; half the pull costs up to 0.33 and twice up to 0.3; prices of 1 cost 0.4 where a third
// of the tasks is pinned and twice the price 0.05.
#pragma once

#include <cstdint>

namespace longhaul::scheduler {

struct SmallJobPolicy {
  // Pull towards full nodes, in thousandths of a GPU: of a node with all cpu free, and of one with
  // all GPUs free, relative to the largest in the cluster. Without it equal rises scatter tasks.
  int32_t pull_cpu = 100;
  int32_t pull_gpus = 100;
  // Weight of the packing loss of a GPU (small_jobs/gpu_packing.h) beside the fragmentation's
  // rise: at 10 the loss nearly always decides before the rise.
  int32_t packing = 10;
  // Weight of the scarcity of a device model (small_jobs/scarcity.h), and the scarcity at which it
  // stops to grow: at 1 the pinned demand alone fills the model.
  int32_t price_percent = 200;
  int32_t largest_price_milli = 1'000;
  // Thousandths of a GPU for each thousandth of a node's health that is missing. A node that is
  // broken and ready is always free; at 4 a health of 3/4 weighs as much as a whole GPU.
  int32_t health = 4;
  // Weight of gangs that no longer fit when a wholly free host is broken; 0: not counted.
  int32_t holes = 0;
};

}  // namespace longhaul::scheduler
