#include "service/agent/door_library.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "io/process.h"

namespace longhaul::service {

std::string FindDoorLibrary() {
  const auto directory = io::ProgramDirectory();
  return FindDoorLibraryFrom(directory.ok() ? *directory : "", std::getenv("LONGHAUL_LIBRARY"));
}

std::string FindDoorLibraryFrom(const std::string& directory, const char* named) {
  if (named != nullptr && *named != '\0') return named;
  if (directory.empty()) return "";
  for (const char* place : {"", "/../door", "/../lib"}) {
    const std::filesystem::path path = directory + place + "/liblonghaul.so";
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) continue;
    return path.lexically_normal().string();
  }
  return "";
}

}  // namespace longhaul::service
