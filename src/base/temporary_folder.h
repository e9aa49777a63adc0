// A folder that exists as long as the object: for tests and tools.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/check.h"

namespace longhaul {

class TemporaryFolder {
 public:
  // Makes it with an unused name in the folder `parent`, which must exist.
  explicit TemporaryFolder(const std::string& parent) : path_(parent + "/longhaul-XXXXXX") {
    CHECK(mkdtemp(path_.data()) != nullptr) << "cannot make a folder in " << parent;
  }
  ~TemporaryFolder() {
    std::error_code left;  // ignored: no remedy for files that cannot be removed
    std::filesystem::remove_all(path_, left);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace longhaul
