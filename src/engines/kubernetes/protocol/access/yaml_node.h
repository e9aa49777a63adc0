// A YAML document as a tree, within limits. For sources of this folder only.
//
// Scalars are kept as text. Refused: anchors, aliases, a second document, more than 1 MiB, 20,000
// values or 32 levels. An error names the source and the line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::engines::kubernetes {

struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };

  Kind kind = Kind::kNull;
  std::string key;  // in the map that contains it
  int line = 0;
  std::string text;  // of a scalar
  std::vector<YamlNode> children;

  // The value of a key, or null when there is none or this is no map.
  const YamlNode* Find(std::string_view name) const;
};

Result<YamlNode> ParseYaml(std::string_view text, const std::string& source);

}  // namespace longhaul::engines::kubernetes
