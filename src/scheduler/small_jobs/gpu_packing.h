// What the free part of a GPU is worth to the fractions that arrive, at best.
//
// Filling GPUs with fractions is bin packing with a known mix of sizes. The linear program of
// cutting stock (Gilmore and Gomory, Operations Research 1961: the fewest GPUs for a mix, over all
// patterns of fractions on one GPU) prices each share by its dual; the value of a GPU with v
// free is the dearest set of shares that fits into v, and an empty GPU is worth 1. A placement of
// share s on a GPU with v free gives away Value(v) - Value(v - s): more than the share's price
// when it spoils the patterns that v could still have become. Fragmentation looks at the next task
// only; this looks at how the GPU would be filled.
//
// Leaves out device memory, cpu, and that one node's GPUs may be pinned to other shares than
// another's. Doubles are used inside; values are rounded to integers before anything compares them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/small_jobs/task_mix.h"
#include "scheduler/state/shape.h"

namespace longhaul::scheduler {

inline constexpr int32_t kGpuValue = 1'000'000;  // of an empty GPU
inline constexpr size_t kMaxPackedShares = 64;   // the ones that take most; others are left out

struct ShareWeight {
  int32_t share = 0;  // 1 to 999
  int64_t weight = 0;
};

// The value of a GPU by its free thousandths: never falls, [0] is 0 and [1000] is kGpuValue, or
// all zero when there are no fractions. Requires distinct shares and weights above zero.
using GpuValues = std::array<int32_t, kWholeGpu + 1>;
GpuValues ValueGpus(std::vector<ShareWeight> shares);

// The shares of the mix's fractions.
std::vector<ShareWeight> SharesOf(const ShapeTable& shapes, const TaskMix& mix);

}  // namespace longhaul::scheduler
