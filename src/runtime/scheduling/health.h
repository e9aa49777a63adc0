// The probation of a node, and constants of the health of nodes and links. Other rules are methods
// of ClusterScheduler (health.cc). scheduler/policy.h defines what a fault costs, how health
// recovers and what probation means.
//
// Probation keeps work away from a node that fails repeatedly, as long as other nodes are
// available. A node that is needed nevertheless is taken back after a pause.
//
// For a job that stands still without it, the first pause is about what a failure costs the job, so
// waiting costs no more than trying in vain. A return that ends before it has lasted ten times its
// pause makes the next pause four times as long (exponential back-off). So a node that always fails
// costs less and less, and one that works for a while between its failures never makes the job wait
// for more than a tenth of that time.
//
// An elastic job that runs on fewer nodes loses less by waiting than by two more changes of its
// size: its first pause is longer, and each return makes the next one four times as long.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"

namespace longhaul::runtime::scheduling {

// How long a node stays on probation before jobs may use it again that stand still, and those that
// would grow.
constexpr Duration kPauseOfStanding = std::chrono::seconds(1);
constexpr Duration kPauseOfGrowing = std::chrono::seconds(10);
constexpr uint32_t kMostLengthenings = 6;  // by four: 68 minutes and 11 hours
constexpr int kGoodReturn = 10;            // pauses that a return lasts
// This many broken connections within an hour are a fault of the node.
constexpr size_t kCutsAFault = 3;
constexpr Duration kCutMemory = std::chrono::hours(1);
// Broken connections are evaluated together, a minute after the first: only then is it known
// whether they have a leaf in common.
constexpr Duration kCutWindow = std::chrono::minutes(1);
constexpr size_t kCutsALeaf = 3;
// A node on probation is ready again from this health on (as in the scheduler).
constexpr uint16_t kTrustedHealth = 800;

// How a job waits for nodes: not at all, on fewer nodes than it could have, or for its start or
// restart.
enum class Lack { kNothing, kGrowth, kPlace };

class Probation {
 public:
  bool on() const { return on_; }
  Instant last_fault() const { return last_fault_; }
  bool unmarked() const { return !on_ && returns_ == 0; }

  void NoteFault(Instant at) { last_fault_ = at; }
  // Takes over what the scheduler thinks of the node.
  void Note(bool suspect, uint16_t health, Instant now);
  // The node is used again because a job needs it.
  void Return(Instant now);
  // An operator says that the node is good.
  void Trust();
  // When a job that waits in this way may use the node.
  Instant OverAt(Lack lack) const { return since_ + PauseFor(lack); }
  std::string Fingerprint() const;

 private:
  Duration PauseFor(Lack lack) const;

  bool on_ = false;
  Instant since_{};  // since it is on probation, or has returned
  Instant last_fault_{};
  uint32_t returns_ = 0;      // because no other node was left
  uint32_t bad_returns_ = 0;  // of these ended early with another fault
};

}  // namespace longhaul::runtime::scheduling
