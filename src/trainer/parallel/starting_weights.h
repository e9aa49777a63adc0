// A fresh run's weights out of another run's checkpoint, of whatever layout.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "trainer/config.h"
#include "trainer/model/parameters.h"

namespace longhaul::trainer {

// Fills what lies here of the weights: each rank reads its own boxes, and every byte is held
// against its hash. Leaves the gaps between parameters. kFailedPrecondition naming a tensor that
// isn't there or has another shape; kNotFound and kDataLoss as checkpoint::LoadState: then
// `weights` hold anything. Requires weights.size() == table.floats().
Status LoadStartingWeights(const StartingWeights& from, const ParameterTable& table, uint32_t rank,
                           std::span<float> weights);

}  // namespace longhaul::trainer
