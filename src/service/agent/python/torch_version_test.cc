#include "service/agent/python/torch_version.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace longhaul::service {
namespace {

class TorchVersion : public ::testing::Test {
 protected:
  TorchVersion() {
    std::string path = ::testing::TempDir() + "/torch-version-XXXXXX";
    folder_ = mkdtemp(path.data());
  }
  ~TorchVersion() override { std::filesystem::remove_all(folder_); }

  // What is found for a job whose interpreter is a shell script of this name.
  std::string FoundBy(const std::string& name, const std::string& script) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    proto::Workload workload;
    workload.add_command(name);
    workload.add_command("train.py");
    (*workload.mutable_environment())["PATH"] = folder_ + ":/usr/bin:/bin";
    workload.set_working_directory(folder_);
    return FindTorchVersion(workload);
  }

  std::string folder_;
};

TEST_F(TorchVersion, IsWhatTheJobsOwnInterpreterSays) {
  EXPECT_EQ(FoundBy("python3.9", "test \"$1\" = -c && echo 2.1.2+cu118"), "2.1.2+cu118");
}

TEST_F(TorchVersion, IsThatOfTheInterpreterThatAWrapperStarts) {
  const std::string path = folder_ + "/python3";
  std::ofstream(path) << "#!/bin/sh\necho 2.4.1\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  const std::pair<std::vector<std::string>, std::string> kRows[] = {
      {{"/bin/sh", "-c", "exec \"$0\" \"$@\"", path, "train.py"}, "2.4.1"},
      {{"numactl", "--cpunodebind", "0", path, "train.py"}, "2.4.1"},
      {{"./train.py", path}, ""},
      {{"sh", folder_ + "/python3.log"}, ""},
  };
  for (const auto& [command, want] : kRows) {
    proto::Workload workload;
    for (const std::string& word : command) workload.add_command(word);
    workload.set_working_directory(folder_);
    EXPECT_EQ(FindTorchVersion(workload), want) << command[0];
  }
}

TEST_F(TorchVersion, IsUnknownWithoutAnAnswer) {
  EXPECT_EQ(FoundBy("python3", "exit 1"), "");
  EXPECT_EQ(FoundBy("python3", "echo 'no version at all'"), "");
  EXPECT_EQ(FoundBy("python3", "echo; echo 1.13"), "");
}

TEST_F(TorchVersion, AsksNothingOfOtherPrograms) {
  EXPECT_EQ(FoundBy("train.sh", "touch asked; echo 2.1.2"), "");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/asked"));
}

// With whatever Python 3 there is.
TEST_F(TorchVersion, IsReadFromTheFilesOfThePackageWithoutImportingIt) {
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "NO python3 IN PATH";
  std::filesystem::create_directories(folder_ + "/torch");
  std::ofstream(folder_ + "/torch/__init__.py") << "raise RuntimeError('imported')\n";
  std::ofstream(folder_ + "/torch/version.py") << "__version__ = '2.1.0a0'\ndebug = False\n";
  proto::Workload workload;
  workload.add_command("python3");
  (*workload.mutable_environment())["PYTHONPATH"] = folder_;
  EXPECT_EQ(FindTorchVersion(workload), "2.1.0a0");
}

}  // namespace
}  // namespace longhaul::service
