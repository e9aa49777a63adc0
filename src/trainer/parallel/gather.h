// Gathers a model from its parts on several ranks onto one rank.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "trainer/model/parameters.h"
#include "trainer/parallel/group.h"

namespace longhaul::trainer {

// Returns the values of all ranks' parameters (each in the layout of `here`) in the layout of
// `whole` on the replica's first rank; empty on the others. All its ranks call it.
Result<std::vector<float>> GatherWhole(const ParameterTable& here, const ParameterTable& whole,
                                       Group& replica, std::span<const float> values);

}  // namespace longhaul::trainer
