// The parameters that a rank holds: names, shapes, initial values, and from how they are divided,
// which ranks hold the same values and which sums their gradients need. No other file decides that.
//
// Queries, keys and values are divided over the tensor group by heads, the FFN's upper matrices by
// outputs, both lower matrices by inputs (Shoeybi et al., Megatron-LM, 2019), embedding and output
// by words, which need not divide. Where there are fewer heads of keys and values than parts,
// several parts hold the same head.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training/config.h"
#include "training/layout.h"

namespace longhaul::training {

struct Parameter {
  std::string name;            // "model.layers.0.attention.query.weight"
  std::vector<int64_t> whole;  // shape in the whole model
  std::vector<int64_t> shape;  // of this rank's share
  int32_t layer = 0;           // kEmbedding, a layer, or kOutput
  int tensor_dimension = -1;   // divided over the tensor group; -1: each part has all of it
  uint32_t tensor_parts = 1;   // different shares along it
  bool expert = false;         // dimension 0 is divided over the expert group
  // Each part of the tensor group computes a share of the gradient of the same values.
  bool partial = false;
  bool tied = false;     // embedding and output are the same matrix
  bool decayed = false;  // matrices; not norms, biases and positions
  double mean = 0;       // initial values are normal around this
  double deviation = 0;
  Cut tensor_cut;  // along tensor_dimension
  Cut expert_cut;  // along dimension 0

  int64_t count() const;
};

// Places of what is no layer.
constexpr int32_t kEmbedding = -1;
constexpr int32_t kOutput = -2;

// The parameters of the embedding, of a layer or of the output on this rank, in a fixed order.
// Requires a layout that CheckLayout accepts. The output of a model with tied embeddings has the
// embedding's matrix, under its name.
std::vector<Parameter> ParametersOf(const ModelConfig& config, const Layout& layout,
                                    const Place& place, int32_t layer);

// The layers of a stage [begin, end), which may differ by one; stages count over all chunks.
Cut LayersOfStage(const ModelConfig& config, const Layout& layout, uint32_t stage);

// Over which ranks the gradients of a parameter are summed, each listed with `rank` and ascending;
// groups of one are left out. First those that see other tokens, then those that compute a share.
// Tied matrices are summed between stages besides (dimensions/slicing.h).
std::vector<uint32_t> TokenRanks(const Layout& layout, uint32_t rank, bool expert);
std::vector<uint32_t> ShareRanks(const Layout& layout, uint32_t rank, const Parameter& parameter);

// Whether this rank's copy is the one that counts in the gradients' norm, of those copies in the
// tensor group.
bool CountsInTensorGroup(const Layout& layout, const Place& place, const Parameter& parameter);

// The initial value of an element by its index in the whole parameter: a function of seed, name and
// index alone, so the same weights come out in every layout.
double InitialValue(const Parameter& parameter, uint64_t key, uint64_t index);
uint64_t InitialKey(const Parameter& parameter, uint64_t seed);

}  // namespace longhaul::training
