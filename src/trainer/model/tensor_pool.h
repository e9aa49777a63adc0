// Memory of libtorch's tensors: blocks of a step are kept for the next one, each for tensors of its
// own size.
//
// A step makes the same tensors as the one before, so that after the first every one of them finds
// its block; and what a process holds is what its step needs of each size, a figure that the
// planner knows (planner/local/tape.h). malloc would leave gaps of a third and more between them.
// Small tensors are malloc's. Thread-safe.
#pragma once

#include <cstddef>

namespace longhaul::trainer {

// Tensors of fewer bytes are malloc's.
constexpr size_t kPooledBytes = size_t{32} << 10;

// From now on all tensors of this process come from the pool. Once, before any tensor is made.
void InstallTensorPool();

// Gives the blocks that are not in use back to the system: what comes next has other sizes.
void TrimTensorPool();

}  // namespace longhaul::trainer
