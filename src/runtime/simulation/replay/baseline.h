// What the failures of a trace cost under other systems: a small model of events, not their code.
//
// A system trains, stops for its checkpoints, and after each failure passes through the times of
// its BaselineSystem (published.h) one after the other. A failure during a recovery begins the
// recovery anew. Leaves out everything that the constants don't state.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "runtime/simulation/replay/fault_trace.h"
#include "runtime/simulation/replay/published.h"

namespace longhaul::runtime::simulation {

enum class LossPart {
  kProductive,  // steps that count
  kSlow,        // by which slow devices made steps longer
  kCheckpoint,  // training stops for a copy
  kLostWork,    // done again after a failure
  kDetect,      // until the failure is noticed, or is over
  kDecide,      // until the decision: diagnosis, wait for a machine
  kRestart,     // until the processes have joined
  kGroups,      // set-up of the communication
  kRestore,     // of the state
  kOther,
};
constexpr size_t kLossParts = 10;

std::string_view NameOf(LossPart part);

// Seconds of each part; they sum to the time of the run.
struct TimeParts {
  std::array<double, kLossParts> seconds{};

  double& operator[](LossPart part) { return seconds[static_cast<size_t>(part)]; }
  double operator[](LossPart part) const { return seconds[static_cast<size_t>(part)]; }
  double Total() const;
  // Effective training time: the productive share.
  double Effective() const { return (*this)[LossPart::kProductive] / Total(); }
};

// Requires a trace in order of time that ends within `length`.
TimeParts RunBaseline(const BaselineSystem& system, const std::vector<TracedFault>& trace,
                      Duration length);

}  // namespace longhaul::runtime::simulation
