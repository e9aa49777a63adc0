// How much nodes and links are trusted: the constants. The rules are methods of ClusterScheduler
// (health.cc); what a fault takes, what time gives back and what probation means is the scheduler's
// (scheduler/policy.h).
//
// Probation keeps work away from a node that fails again and again, as long as there is anywhere
// else to go. A node that nothing can do without is taken back: after a pause, and after each
// return that failed a pause four times as long (exponential back-off), so that a node that is
// broken for good costs ever less.
#pragma once

#include "base/time.h"

namespace longhaul::runtime::scheduling {

// A node on probation is left alone for so long before what waits may have it back.
constexpr Duration kProbationPause = std::chrono::seconds(10);
constexpr uint32_t kMostDoublings = 6;  // of four times: 11 hours
// Connections that break and come back: so many an hour are a fault of the node.
constexpr size_t kCutsAFault = 3;
constexpr Duration kCutMemory = std::chrono::hours(1);
// Breaks are judged together, once a minute has passed since the first: whether they have a leaf in
// common shows only when all are back.
constexpr Duration kCutWindow = std::chrono::minutes(1);
constexpr size_t kCutsALeaf = 3;
// A suspect that healed so far is ready again (as in the scheduler).
constexpr uint16_t kTrustedHealth = 800;

}  // namespace longhaul::runtime::scheduling
