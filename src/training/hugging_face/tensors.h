// Where each of the engine's parameters is in a checkpoint of Hugging Face's format.
//
// One table serves for loading and for saving. A parameter is one tensor, or rows of a fused one
// (GPT-2's c_attn), or, for experts, one tensor for each expert. GPT-2's matrices are stored
// transposed. Names are those that transformers writes; docs/training-models.md has the table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "training/config.h"
#include "training/hugging_face/read_config.h"
#include "training/layout.h"
#include "training/parameters.h"

namespace longhaul::training {

// A tensor of the checkpoint, and the part of it that belongs to a parameter.
struct Piece {
  std::string tensor;
  std::vector<int64_t> shape;     // as stored
  bool transposed = false;        // stored as [inputs, outputs]
  int64_t row = 0;                // the parameter's first row (column, where transposed) in it
  std::optional<int64_t> expert;  // it is this index of the parameter's dimension 0

  friend bool operator==(const Piece&, const Piece&) = default;
};

// The pieces of a parameter of the whole model, by expert. Requires a parameter of this model.
std::vector<Piece> PiecesOf(const ModelConfig& model, Family family, const Parameter& parameter);

// All parameters of a rank as if it had all layers, each once, in the order of the layers.
std::vector<Parameter> AllParameters(const ModelConfig& model, const Layout& layout,
                                     const Place& place);

// The name in PiecesOf of a tensor in a file: GPT-2 is also stored without "transformer.".
std::string CanonicalName(Family family, std::string_view name);

// Whether a tensor holds constants that older versions of transformers stored: masks, frequencies
// of rotary positions.
bool IsConstant(Family family, std::string_view name);

// The output matrix, which a file may have beside the embedding it is tied to.
constexpr std::string_view kOutputTensor = "lm_head.weight";

}  // namespace longhaul::training
