// Finds the built-in trainer's program. The controller (to measure the machine) and the agent (to
// start workers) search the same places.
#pragma once

#include <string>

namespace longhaul::service {

// Returns $LONGHAUL_TRAINER if it is set, else longhaul-trainer beside this program, else in
// ../trainer (a build folder); empty when there is none.
std::string FindTrainer();

// The same for a program in `directory` and with this value of $LONGHAUL_TRAINER (null: not set).
std::string FindTrainerFrom(const std::string& directory, const char* named);

}  // namespace longhaul::service
