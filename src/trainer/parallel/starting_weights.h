// Loads a fresh run's weights from another run's checkpoint of any layout.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "trainer/config.h"
#include "trainer/model/parameters.h"

namespace longhaul::trainer {

// Fills this rank's part of the weights: each rank reads its own boxes, and every byte is checked
// against its hash. Does not change the gaps between parameters. kFailedPrecondition naming a
// tensor that is missing or has another shape; kNotFound and kDataLoss as checkpoint::LoadState:
// then `weights` have undefined values. Requires weights.size() == table.floats().
Status LoadStartingWeights(const StartingWeights& from, const ParameterTable& table, uint32_t rank,
                           std::span<float> weights);

}  // namespace longhaul::trainer
