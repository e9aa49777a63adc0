// The number of places to which a token's experts send it: ranks, or islands of GPUs.
//
// A place holds an equal share of the experts, in their order. Dispatch kernels that merge copies
// (DeepEP, HybridEP, Megatron's hierarchical all-to-all) send a token to a place once, for any
// number of its experts there, so this number determines their traffic. Leaves out the spread
// between tokens and the learned preferences of the router.
#pragma once

#include "spec/model/model.h"

namespace longhaul::planner {

enum class Routing {
  kEven,         // each choice equally likely, inside the groups that a token may use
  kConsecutive,  // token t to experts t k to t k + k - 1 of a circle: NeMo AutoModel's forced
                 // balance
};

// The mean over tokens. Requires places of 1 to experts.count.
double PlacesOfToken(const spec::Experts& experts, Routing routing, double places);

}  // namespace longhaul::planner
