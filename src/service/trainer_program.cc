#include "service/trainer_program.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "io/process/process.h"

namespace longhaul::service {

std::string FindTrainer() {
  const auto directory = io::ProgramDirectory();
  return FindTrainerFrom(directory.ok() ? *directory : "", std::getenv("LONGHAUL_TRAINER"),
                         std::getenv("PATH"));
}

std::string FindTrainerFrom(const std::string& directory, const char* named, const char* path) {
  if (named != nullptr && *named != '\0') return named;
  std::vector<std::string> places;
  if (!directory.empty()) places = {directory, directory + "/../trainer"};
  for (const std::string_view folder : Split(path == nullptr ? "" : path, ':')) {
    if (!folder.empty()) places.emplace_back(folder);
  }
  for (const std::string& place : places) {
    const std::string program = place + "/longhaul-trainer";
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

Status NoTrainer() {
  return NotFound(
      "the built-in trainer is not installed: longhaul-trainer is neither beside this program nor "
      "in PATH; install the Debian package longhaul-trainer, or build it from source and set "
      "LONGHAUL_TRAINER to its path (docs/install.md)");
}

}  // namespace longhaul::service
