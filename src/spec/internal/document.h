// A YAML text as a small tree with line numbers: the input of the readers of `spec`.
//
// JSON is read by the same code, because YAML contains it. Everything is bounded, because texts
// also come by REST: 1 MiB, 16 levels, 20,000 values. Anchors, aliases, tags and further documents
// are rejected, so a short text cannot expand to a long one. Leaves out types: a scalar is a text,
// quoted or plain.
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

// The child with this key, or null. Accepts any kind of node.
const Node* Find(const Node& map, std::string_view key);

// Reads one document. `source` names it in messages: "job.yaml:3: not valid YAML: ...".
Result<Node> ParseDocument(std::string_view text, std::string_view source);

}  // namespace longhaul::spec::internal
