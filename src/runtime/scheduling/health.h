// Constants of the health of nodes and links. The rules are methods of ClusterScheduler
// (health.cc). scheduler/policy.h defines what a fault costs, how health recovers and what
// probation means.
//
// Probation keeps work away from a node that fails repeatedly, as long as other nodes are
// available. A node that is needed nevertheless is taken back after a pause. Each return that
// failed makes the next pause four times as long (exponential back-off), so a broken node costs
// less and less.
#pragma once

#include "base/time.h"

namespace longhaul::runtime::scheduling {

// How long a node stays on probation before waiting jobs may use it again.
constexpr Duration kProbationPause = std::chrono::seconds(10);
constexpr uint32_t kMostDoublings = 6;  // of four times: 11 hours
// This many broken connections within an hour are a fault of the node.
constexpr size_t kCutsAFault = 3;
constexpr Duration kCutMemory = std::chrono::hours(1);
// Broken connections are evaluated together, a minute after the first: only then is it known
// whether they have a leaf in common.
constexpr Duration kCutWindow = std::chrono::minutes(1);
constexpr size_t kCutsALeaf = 3;
// A node on probation is ready again from this health on (as in the scheduler).
constexpr uint16_t kTrustedHealth = 800;

}  // namespace longhaul::runtime::scheduling
