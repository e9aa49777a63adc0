// Reads the objects of a manifest file: YAML with several documents, or JSON; Lists are opened.
//
// Everything has a limit, because files may come from anywhere: 4 MiB, 1,000 documents, 200,000
// values and 64 levels for each file, and 2,000 keys for each map. Aliases (*name) and merges (<<)
// are resolved, and what they stand for counts as values and as text of at most 16 MiB, so that a
// short text cannot expand to a long one. Refused: other tags than !!str, numbers that JSON does
// not have, and two keys of the same name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/import/import_report.h"

namespace longhaul::engines::kubernetes {

inline constexpr size_t kMostManifestBytes = size_t{4} << 20;
inline constexpr size_t kMostDocuments = 1'000;
inline constexpr size_t kMostManifestValues = 200'000;
inline constexpr size_t kMostManifestText = size_t{16} << 20;  // bytes, with those of aliases
inline constexpr size_t kMostManifestDepth = 64;
inline constexpr size_t kMostManifestKeys = 2'000;  // of a map: keys are found by comparing

struct Manifest {
  ManifestOrigin origin;
  JobJson object;  // an object with apiVersion and kind
};

// `file` names the text in messages. kInvalidArgument with "FILE:LINE: ..." or with "FILE: document
// N: ...". Empty documents are left out.
Result<std::vector<Manifest>> ReadManifests(std::string_view text, const std::string& file);

}  // namespace longhaul::engines::kubernetes
