// Finds the files that match a glob.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"

namespace longhaul::corpus {

constexpr size_t kMaxFiles = 1'000'000;

struct Found {
  std::set<std::string> paths;          // byte-wise sorted
  std::vector<std::string> unreadable;  // directories that could not be listed, with the reason
};

// Adds the regular files, and the symbolic links to any target, that `glob` matches. "**"
// does not follow symbolic links to directories, so a loop of links ends; wildcards do not
// match a leading dot. An absent directory has no files. kResourceExhausted beyond
// kMaxFiles.
Status FindFiles(const std::string& glob, Found& found);

}  // namespace longhaul::corpus
