// Memory of libtorch's tensors: blocks of a step are kept for the next one, each for tensors of its
// size.
//
// A step makes the same tensors as the one before, so that after the first step each of them finds
// its block; and a process holds what its step needs of each size, which the planner predicts
// (planner/local/tape.h). malloc would leave gaps of a third and more between them. malloc
// allocates small tensors. Thread-safe.
#pragma once

#include <cstddef>

namespace longhaul::trainer {

// malloc allocates tensors of fewer bytes.
constexpr size_t kPooledBytes = size_t{32} << 10;

// After this call all tensors of this process use the pool. Call it once, before any tensor exists.
void InstallTensorPool();

// Returns the unused blocks to the system: later tensors have other sizes.
void TrimTensorPool();

}  // namespace longhaul::trainer
