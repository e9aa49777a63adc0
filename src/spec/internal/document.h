// A YAML text as a small tree with line numbers: what the readers of `spec` work on.
//
// JSON is read by the same, as YAML contains it. Everything is bounded, since texts come by REST
// too: 1 MiB, 16 levels, 20,000 values. Anchors, aliases, tags and further documents are refused,
// so a short text cannot stand for a long one. Leaves out types: a scalar is a text, quoted or
// plain.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::spec::internal {

struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  int line = 0;         // from 1
  bool quoted = false;  // a scalar in quotes is never a number
  std::string text;     // of a scalar
  std::string key;      // inside a map: this value's key, unique there
  int key_line = 0;
  std::vector<Node> children;  // of a list or a map, in the text's order
};

// The child with this key, or null. Any kind of node may be asked.
const Node* Find(const Node& map, std::string_view key);

// Reads one document. `source` names it in messages: "job.yaml:3: not valid YAML: ...".
Result<Node> ParseDocument(std::string_view text, std::string_view source);

}  // namespace longhaul::spec::internal
