// The memory that a GPU reports for a program's allocations: caching allocator, context, NCCL.
//
// PyTorch's allocator (c10/cuda/CUDACachingAllocator.cpp) rounds blocks to 512 bytes; small ones
// come from segments of 2 MiB, those below 10 MiB from 20 MiB, larger ones from their size in steps
// of 2 MiB. Holes between segments keep the reserved memory above the allocated memory: 3-7 % in
// published runs, more where micro-batches of different stages interleave under an eager engine.
// The context holds kernels and driver state, NCCL its channels' buffers for each communicator.
#pragma once

#include "base/units.h"
#include "planner/framework.h"
#include "spec/model/training.h"

namespace longhaul::planner {

// The size of a block for `bytes`, and of the segment for a new block.
Bytes RoundBlock(Bytes bytes);
Bytes SegmentOf(Bytes bytes);

Bytes Reserved(Bytes allocated, Family family);
// The memory that nvidia-smi shows.
Bytes OnGpu(Bytes reserved, const spec::Layout& layout, Family family, const spec::Device& device);

}  // namespace longhaul::planner
