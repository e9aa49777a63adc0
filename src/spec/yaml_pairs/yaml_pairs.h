// A YAML (or JSON) text as a list of its scalars, each under the path of keys that leads to it.
//
// For readers of other programs' files, whose keys this project does not define: sections are not
// checked. Bounded like all documents of `spec` (1 MiB, 16 levels, 20,000 values; no anchors). A
// list of scalars becomes one pair with several values; lists of maps and nulls are omitted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::spec {

struct YamlPair {
  std::string path;  // "MODEL_ARGS.--num-layers"
  std::vector<std::string> values;
  int line = 0;  // from 1
};

// In the text's order. `source` names it in messages. The root must be a map.
Result<std::vector<YamlPair>> ParseYamlPairs(std::string_view text, std::string_view source);

}  // namespace longhaul::spec
