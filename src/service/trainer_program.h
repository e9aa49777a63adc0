// Where the built-in trainer's program lies. Controller (to measure the machine) and agent (to
// start workers) look in the same places.
#pragma once

#include <string>

namespace longhaul::service {

// $LONGHAUL_TRAINER when it is set, else longhaul-trainer beside this program, else in ../trainer
// from there (a build folder); empty when there is none.
std::string FindTrainer();

// The same for a program in `directory` and with this value of $LONGHAUL_TRAINER (null: not set).
std::string FindTrainerFrom(const std::string& directory, const char* named);

}  // namespace longhaul::service
