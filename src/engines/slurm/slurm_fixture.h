// For tests of refusals and of answers that come late, which a real Slurm does not give on demand:
// programs with the names of Slurm's, which record how they were called and print what a test has
// set. They come first in PATH as long as this object lives. tests/slurm has the real daemons.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/temporary_folder.h"

namespace longhaul::engines::slurm {

class SlurmPrograms {
 public:
  SlurmPrograms() : path_(std::getenv("PATH")) {
    // Of the jobs, those that were named.
    Program("squeue", R"(case "$*" in *--me*) exec cat mine;; esac
named=",$(echo "$*" | sed 's/.*--jobs=\([^ ]*\).*/\1/'),"
while read -r line; do case "$named" in *",${line%%|*},"*) echo "$line|end";; esac; done < jobs)");
    // Does not end while the file `hold` exists.
    Program("sbatch", R"(while [ -e hold ]; do sleep 0.01; done
echo "7|PENDING||Resources" >> jobs
echo 7)");
    Program("scancel", "[ ! -e refuse ]");
    Program("scontrol", "[ ! -e refuse ]");
    Write("mine", "JOBID|STATE\n");
    Write("jobs", "");
    std::filesystem::create_directories(run() + "/slurm");
    std::filesystem::create_directories(run() + "/cluster");
    ::setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1);
  }
  ~SlurmPrograms() { ::setenv("PATH", path_.c_str(), 1); }
  SlurmPrograms(const SlurmPrograms&) = delete;
  SlurmPrograms& operator=(const SlurmPrograms&) = delete;

  std::string run() const { return folder_.path() + "/run"; }  // the run's directory
  void Write(const std::string& name, const std::string& text) const {
    // Replaced, because a program may read it.
    std::ofstream(folder_.path() + "/new") << text;
    std::filesystem::rename(folder_.path() + "/new", folder_.path() + "/" + name);
  }
  void Remove(const std::string& name) const {
    std::filesystem::remove(folder_.path() + "/" + name);
  }

  // The calls that begin with this text, in their order.
  std::vector<std::string> Calls(const std::string& beginning) const {
    std::ifstream file(folder_.path() + "/calls");
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
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << "#!/bin/sh\ncd " << folder_.path() << "\necho \"" << name
                        << " $*\" >> calls\n"
                        << body << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  const std::string path_;
  TemporaryFolder folder_{testing::TempDir()};
};

}  // namespace longhaul::engines::slurm
