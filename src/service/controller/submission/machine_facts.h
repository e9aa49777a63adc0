// What this machine can do, for the planner: cores, memory, and the measured times of operators.
#pragma once

#include <string>

#include "base/status.h"
#include "planner/local/cost.h"

namespace longhaul::service {

// Where `longhaul calibrate` writes and the planner looks: $LONGHAUL_DEVICE_FILE, else
// $XDG_CONFIG_HOME/longhaul/device.json, else ~/.config/longhaul/device.json; empty without any.
std::string DefaultDeviceFile();

// The figures of the default device file, when it is there, sound, and of this machine (processor
// and count of cores); a file that can't be used is named in the facts' basis. Without one, figures
// shipped with the program at the measured peak of a core here. That measurement takes a second or
// two, so it is kept in `state_directory`/machine.json for as long as the processor's model and
// count of cores stay the same. `trainer` is the path of longhaul-trainer; where it is empty or
// fails, the peak is an assumption and the facts say so.
planner::MachineFacts ReadMachineFacts(const std::string& state_directory,
                                       const std::string& trainer);

}  // namespace longhaul::service
