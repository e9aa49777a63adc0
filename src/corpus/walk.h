// The files that a glob names.
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

// Adds the regular files, and the symbolic links to whatever they point at, that `glob` matches.
// "**" doesn't go through symbolic links to directories, so a loop of links ends; wildcards don't
// match a leading dot. A directory that is absent has no files. kResourceExhausted beyond
// kMaxFiles.
Status FindFiles(const std::string& glob, Found& found);

}  // namespace longhaul::corpus
