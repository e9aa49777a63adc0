// Rivals' rules for the node of one task, plainly written, to be run beside our own on one state.
//
// They score every node anew for each task. Doubles are used as the rivals use them, so a last bit
// may differ between machines; nothing but comparisons is built on them.
#pragma once

#include <optional>

#include "base/random.h"
#include "scheduler/small_jobs/fragmentation.h"
#include "scheduler/small_jobs/small_placer.h"
#include "scheduler/state/state.h"

namespace longhaul::scheduler {

// The node that has least cpu and idle GPUs afterwards, each as a part of the largest node's; of
// its GPUs the fullest. Ties to the first node.
std::optional<SmallChoice> ChooseBestFit(const State& state, ShapeId shape);

// FGD: floor(100 x sigmoid(-rise / 1000)) of the expected fragmentation's rise in thousandths,
// greatest first, ties to the first node; on a node the GPU
// with the least rise.
std::optional<SmallChoice> ChoosePublishedFgd(const State& state, ShapeId shape,
                                              const FragmentationTable& table);

// Any node that fits, all alike.
std::optional<SmallChoice> ChooseRandom(const State& state, ShapeId shape, Random& random);

}  // namespace longhaul::scheduler
