// A model that lies in parts on several ranks, put together on one.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "trainer/model/parameters.h"
#include "trainer/parallel/group.h"

namespace longhaul::trainer {

// Values of the parameters here (in the layout of `here`) as a buffer in the layout of `whole`, on
// the replica's first rank; empty on the others. All ranks of `replica` call it.
Result<std::vector<float>> GatherWhole(const ParameterTable& here, const ParameterTable& whole,
                                       Group& replica, std::span<const float> values);

}  // namespace longhaul::trainer
