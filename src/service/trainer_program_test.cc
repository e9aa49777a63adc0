#include "service/trainer_program.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace longhaul::service {
namespace {

namespace fs = std::filesystem;

void MakeProgram(const fs::path& path) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << "#!/bin/sh\n";
  fs::permissions(path, fs::perms::owner_all);
}

TEST(FindTrainer, LooksAtItsNameThenBesideThenInTheTrainersFolderThenInPath) {
  std::string pattern = testing::TempDir() + "/trainer_program_XXXXXX";
  const fs::path build = ::mkdtemp(pattern.data());
  const std::string bin = build / "bin";
  fs::create_directories(bin);
  EXPECT_EQ(FindTrainerFrom(bin, nullptr, nullptr), "");
  std::ofstream(bin + "/longhaul-trainer") << "no program";
  EXPECT_EQ(FindTrainerFrom(bin, nullptr, nullptr), "") << "it can't be executed";
  const std::string path = ":/nowhere:" + (build / "installed").string();
  EXPECT_EQ(FindTrainerFrom(bin, nullptr, path.c_str()), "");
  MakeProgram(build / "installed" / "longhaul-trainer");
  EXPECT_EQ(FindTrainerFrom(bin, nullptr, path.c_str()), build / "installed" / "longhaul-trainer");
  EXPECT_EQ(FindTrainerFrom("", nullptr, path.c_str()), build / "installed" / "longhaul-trainer");
  MakeProgram(build / "trainer" / "longhaul-trainer");
  EXPECT_EQ(FindTrainerFrom(bin, nullptr, path.c_str()), bin + "/../trainer/longhaul-trainer");
  MakeProgram(bin + "/longhaul-trainer");
  EXPECT_EQ(FindTrainerFrom(bin, "", path.c_str()), bin + "/longhaul-trainer");
  EXPECT_EQ(FindTrainerFrom(bin, "/elsewhere/trainer", nullptr), "/elsewhere/trainer");
  EXPECT_EQ(FindTrainerFrom("", nullptr, nullptr), "");
  fs::remove_all(build);
}

}  // namespace
}  // namespace longhaul::service
