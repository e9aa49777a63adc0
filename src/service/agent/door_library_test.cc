#include "service/agent/door_library.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace longhaul::service {
namespace {

namespace fs = std::filesystem;

TEST(FindDoorLibrary, LooksAtItsNameThenBesideThenInFolders) {
  std::string pattern = testing::TempDir() + "/door_library_XXXXXX";
  const fs::path build = fs::path(::mkdtemp(pattern.data())).lexically_normal();
  const std::string bin = build / "bin";
  for (const char* folder : {"bin", "door", "lib"}) fs::create_directories(build / folder);
  EXPECT_EQ(FindDoorLibraryFrom(bin, nullptr), "");
  for (const char* folder : {"lib", "door", "bin"}) {
    const std::string path = build / folder / "liblonghaul.so";
    std::ofstream{path} << "a library";
    EXPECT_EQ(FindDoorLibraryFrom(bin, ""), path);
  }
  EXPECT_EQ(FindDoorLibraryFrom(bin, "/elsewhere/liblonghaul.so"), "/elsewhere/liblonghaul.so");
  EXPECT_EQ(FindDoorLibraryFrom("", nullptr), "");
  fs::remove_all(build);
}

}  // namespace
}  // namespace longhaul::service
