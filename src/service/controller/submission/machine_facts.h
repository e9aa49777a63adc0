// Facts about this machine for the planner: cores, memory, and measured times of operators.
#pragma once

#include <string>

#include "base/status.h"
#include "planner/local/cost.h"

namespace longhaul::service {

// Returns the constants of the default device file, if it exists, is valid, and was measured on
// this machine (same processor and number of cores); `basis` names a file that can't be used.
// Otherwise returns the program's built-in constants, scaled to the measured peak of a core here.
// That measurement takes a second or two, so it is stored in `state_directory`/machine.json until
// the processor's model or the number of cores changes. `trainer` is the path of longhaul-trainer;
// if it is empty or fails, the peak is an assumption, which the facts report.
planner::MachineFacts ReadMachineFacts(const std::string& state_directory,
                                       const std::string& trainer);

}  // namespace longhaul::service
