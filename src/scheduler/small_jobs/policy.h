// The constants of small jobs' placement, in one place, each with its reason.
//
// They were chosen on lists resampled from one production list with other seeds and mixes than
// those of the published comparison (replay/README.md has the figures), and all of them sit on
// plateaus: half or twice a value moves the allocation by about a tenth of a percent.
#pragma once

#include <cstdint>

namespace longhaul::scheduler {

struct SmallJobPolicy {
  // Pull towards full nodes, in thousandths of a card: of a node with all cpu free, and of one with
  // all cards free, relative to the largest in the cluster. Without it equal rises scatter tasks.
  int32_t pull_cpu = 100;
  int32_t pull_cards = 100;
  // Weight of the packing loss of a card (small_jobs/card_packing.h) beside the fragmentation's
  // rise. From 6 on the loss decides before the rise; 3 gives half of the gain.
  int32_t packing = 10;
  // Weight of the scarcity of a device model (small_jobs/scarcity.h), and the scarcity at which it
  // stops to grow: at 1 the pinned demand alone fills the model.
  int32_t price_percent = 200;
  int32_t largest_price_milli = 1'000;
  // Thousandths of a card for each thousandth of a node's health that is missing. A node that is
  // broken and ready is always free; at 4 a health of 3/4 weighs as much as a whole card.
  int32_t health = 4;
  // Weight of gangs that no longer fit when a wholly free host is broken; 0: not counted.
  int32_t holes = 0;
};

}  // namespace longhaul::scheduler
