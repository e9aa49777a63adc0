#include "service/trainer_program.h"

#include <unistd.h>

#include <cstdlib>

#include "io/process/process.h"

namespace longhaul::service {

std::string FindTrainer() {
  const auto directory = io::ProgramDirectory();
  return FindTrainerFrom(directory.ok() ? *directory : "", std::getenv("LONGHAUL_TRAINER"));
}

std::string FindTrainerFrom(const std::string& directory, const char* named) {
  if (named != nullptr && *named != '\0') return named;
  if (directory.empty()) return "";
  for (const char* place : {"/longhaul-trainer", "/../trainer/longhaul-trainer"}) {
    const std::string path = directory + place;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

}  // namespace longhaul::service
