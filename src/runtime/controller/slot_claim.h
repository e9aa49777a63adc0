// What the workers of a job on one node occupy: slots, and devices if they are assigned.
#pragma once

#include <cstdint>

#include "scheduler/state/state.h"

namespace longhaul::runtime::controller {

struct SlotClaim {
  uint32_t slots_milli = 0;        // thousandths of slots
  scheduler::GpuMask devices = 0;  // 0: they are not assigned
  // Of each device in `devices`: the thousandths that it takes, and the memory if it takes a part.
  uint16_t share_milli = scheduler::kWholeGpu;
  int64_t memory_mib = 0;

  friend bool operator==(const SlotClaim&, const SlotClaim&) = default;
};

}  // namespace longhaul::runtime::controller
