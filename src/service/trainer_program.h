// Finds the built-in trainer's program. The controller (to measure the machine) and the agent (to
// start workers) search the same places.
#pragma once

#include <string>

#include "base/status.h"

namespace longhaul::service {

// Returns $LONGHAUL_TRAINER if it is set, else longhaul-trainer beside this program, else in
// ../trainer (a build folder), else in $PATH; empty when there is none.
std::string FindTrainer();

// The same for a program in `directory` and with these values of $LONGHAUL_TRAINER and $PATH (null:
// not set).
std::string FindTrainerFrom(const std::string& directory, const char* named, const char* path);

// The error when there is none. It names the ways to get the trainer.
Status NoTrainer();

}  // namespace longhaul::service
