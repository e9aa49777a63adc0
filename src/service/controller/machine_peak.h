// What this machine can do, for the planner: cores, memory, and the measured peak of a core.
#pragma once

#include <string>

#include "base/status.h"
#include "planner/cost.h"

namespace longhaul::service {

// The measurement takes a second or two, so it is kept in `state_directory`/machine.json for as
// long as the processor's model and count of cores stay the same. `trainer` is the path of
// longhaul-trainer; where it is empty or fails, the peak is an assumption and the facts say so.
planner::MachineFacts ReadMachineFacts(const std::string& state_directory,
                                       const std::string& trainer);

}  // namespace longhaul::service
