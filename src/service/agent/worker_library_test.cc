#include "service/agent/worker_library.h"

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

}  // namespace
}  // namespace longhaul::service
