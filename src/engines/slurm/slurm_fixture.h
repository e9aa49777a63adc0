// For tests: programs with the names of Slurm's, which record how they were called and print what a
// test has set. They come first in PATH as long as this object lives.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace longhaul::engines::slurm {

class FakeSlurm {
 public:
  FakeSlurm() : path_(std::getenv("PATH")) {
    std::string made = (std::filesystem::temp_directory_path() / "fake-slurm-XXXXXX").string();
    EXPECT_NE(::mkdtemp(made.data()), nullptr);
    folder_ = made;
    // Of the jobs, those that were named.
    Program("squeue", R"(case "$*" in *--me*) exec cat mine;; esac
named=",$(echo "$*" | sed 's/.*--jobs=\([^ ]*\).*/\1/'),"
while read -r line; do case "$named" in *",${line%%|*},"*) echo "$line|end";; esac; done < jobs)");
    // Does not end while the file `hold` exists.
    Program("sbatch", R"(while [ -e hold ]; do sleep 0.01; done
echo "7|PENDING||Resources" >> jobs
echo 7)");
    Program("scancel", "");
    Program("scontrol", "[ ! -e refuse ]");
    Write("mine", "JOBID|STATE\n");
    Write("jobs", "");
    std::filesystem::create_directories(run() + "/slurm");
    std::filesystem::create_directories(run() + "/cluster");
    ::setenv("PATH", (folder_ + ":" + path_).c_str(), 1);
  }
  ~FakeSlurm() {
    ::setenv("PATH", path_.c_str(), 1);
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  FakeSlurm(const FakeSlurm&) = delete;
  FakeSlurm& operator=(const FakeSlurm&) = delete;

  std::string run() const { return folder_ + "/run"; }  // the run's directory
  void Write(const std::string& name, const std::string& text) const {
    // Replaced, because a program may read it.
    std::ofstream(folder_ + "/new") << text;
    std::filesystem::rename(folder_ + "/new", folder_ + "/" + name);
  }
  void Remove(const std::string& name) const { std::filesystem::remove(folder_ + "/" + name); }

  // The calls that begin with this text, in their order.
  std::vector<std::string> Calls(const std::string& beginning) const {
    std::ifstream file(folder_ + "/calls");
    std::vector<std::string> found;
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with(beginning)) found.push_back(line);
    }
    return found;
  }
  // The calls of squeue that name jobs.
  std::vector<std::string> Queries() const { return Calls("squeue --noheader"); }

 private:
  void Program(const std::string& name, const std::string& body) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\ncd " << folder_ << "\necho \"" << name << " $*\" >> calls\n"
                        << body << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  const std::string path_;
  std::string folder_;
};

}  // namespace longhaul::engines::slurm
