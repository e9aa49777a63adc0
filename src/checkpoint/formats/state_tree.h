// The parts of a state that aren't tensors: its nesting and its plain values, as JSON.
//
// A node is {"t": index of a tensor}, {"d": [[key, node], ...]}, {"l": [node, ...]},
// {"u": [node, ...]} (a tuple) or {"v": null, boolean, number or text}; {"f": "nan"}, "inf" or
// "-inf" for numbers that JSON lacks; {"i": "-12"} for integers beyond 64 bits, of at most
// kMaxTreeDigits digits. The Python package writes the same
// (python/longhaul/_state.py) into a tensor of bytes named "longhaul/tree".
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::checkpoint {

inline constexpr std::string_view kTreeTensor = "longhaul/tree";
inline constexpr std::string_view kTreeMetadata = "longhaul.tree";  // of a safetensors file
inline constexpr int kMaxTreeDepth = 64;
inline constexpr size_t kMaxTreeDigits = 600;

using Tree = nlohmann::ordered_json;

// Parses the tree; padding with spaces is allowed. Returns kInvalidArgument when it isn't one, is
// deeper than kMaxTreeDepth, or names a tensor from `tensors` on.
Result<Tree> ParseTree(std::string_view text, size_t tensors);

// Returns the paths of the tensors, by index: "model.0.weight". Empty for tensors that aren't in
// the tree.
std::vector<std::string> TreeNames(const Tree& tree, size_t tensors, char separator);

// Returns a dictionary of tensors, each with its whole name as key.
Tree FlatTree(const std::vector<std::string>& names);

}  // namespace longhaul::checkpoint
