#include "service/agent/python/worker_library.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "io/process/process.h"

namespace longhaul::service {

std::string FindWorkerLibrary() {
  const auto directory = io::ProgramDirectory();
  return FindWorkerLibraryFrom(directory.ok() ? *directory : "", std::getenv("LONGHAUL_LIBRARY"));
}

std::string FindWorkerLibraryFrom(const std::string& directory, const char* named) {
  if (named != nullptr && *named != '\0') return named;
  if (directory.empty()) return "";
  for (const char* place : {"", "/../worker_api", "/../lib"}) {
    const std::filesystem::path path = directory + place + "/liblonghaul.so";
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) continue;
    return path.lexically_normal().string();
  }
  return "";
}

std::string FindPythonPackages() {
  const auto directory = io::ProgramDirectory();
  return FindPythonPackagesFrom(directory.ok() ? *directory : "");
}

std::string FindPythonPackagesFrom(const std::string& directory) {
  if (directory.empty()) return "";
  const std::filesystem::path path = directory + "/../lib/longhaul/python";
  std::error_code error;
  const bool found = std::filesystem::is_regular_file(path / "longhaul" / "__init__.py", error);
  return found ? path.lexically_normal().string() : "";
}

}  // namespace longhaul::service
