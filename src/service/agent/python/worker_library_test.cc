#include "service/agent/python/worker_library.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace longhaul::service {
namespace {

namespace fs = std::filesystem;

TEST(FindWorkerLibrary, LooksAtItsNameThenBesideThenInFolders) {
  std::string pattern = testing::TempDir() + "/worker_library_XXXXXX";
  const fs::path build = fs::path(::mkdtemp(pattern.data())).lexically_normal();
  const std::string bin = build / "bin";
  for (const char* folder : {"bin", "worker_api", "lib"}) fs::create_directories(build / folder);
  EXPECT_EQ(FindWorkerLibraryFrom(bin, nullptr), "");
  for (const char* folder : {"lib", "worker_api", "bin"}) {
    const std::string path = build / folder / "liblonghaul.so";
    std::ofstream{path} << "a library";
    EXPECT_EQ(FindWorkerLibraryFrom(bin, ""), path);
  }
  EXPECT_EQ(FindWorkerLibraryFrom(bin, "/elsewhere/liblonghaul.so"), "/elsewhere/liblonghaul.so");
  EXPECT_EQ(FindWorkerLibraryFrom("", nullptr), "");
  fs::remove_all(build);
}

TEST(FindPythonPackages, LooksInTheInstallationOfTheProgram) {
  std::string pattern = testing::TempDir() + "/python_packages_XXXXXX";
  const fs::path prefix = fs::path(::mkdtemp(pattern.data())).lexically_normal();
  const fs::path packages = prefix / "lib" / "longhaul" / "python";
  fs::create_directories(prefix / "bin");
  EXPECT_EQ(FindPythonPackagesFrom(prefix / "bin"), "");
  fs::create_directories(packages / "longhaul");
  EXPECT_EQ(FindPythonPackagesFrom(prefix / "bin"), "") << "an empty folder is no package";
  std::ofstream{packages / "longhaul" / "__init__.py"} << "";
  EXPECT_EQ(FindPythonPackagesFrom(prefix / "bin"), packages);
  EXPECT_EQ(FindPythonPackagesFrom(""), "");
  fs::remove_all(prefix);
}

}  // namespace
}  // namespace longhaul::service
