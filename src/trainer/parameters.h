// The parameters of the byte-level GPT: names, shapes, where each lies in the flat buffers, how it
// starts. Weights, gradients and both moments are four flat buffers with this one layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "spec/job.h"

namespace longhaul::trainer {

struct Parameter {
  std::string name;  // "model.layers.0.attention.qkv.weight"
  std::vector<int64_t> shape;
  size_t offset = 0;  // in floats, a multiple of kParameterAlignment
  size_t count = 0;
  bool decayed = false;  // matrices; not norms, biases and positions
  float mean = 0;        // initial values are normal around this
  float deviation = 0;
};

// A position's input is the embedding of its own token and, from tables of their own, of this many
// tokens before it: what attention would otherwise first have to learn to fetch.
using spec::kPreviousTokens;

// Each parameter begins on its own cache line, the gap before the next is zero for ever.
constexpr size_t kParameterAlignment = 16;

class ParameterTable {
 public:
  explicit ParameterTable(const spec::ModelSpec& model);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  size_t floats() const { return floats_; }            // a flat buffer's length
  size_t count() const { return count_; }              // of parameters, without the gaps
  const Parameter& Find(std::string_view name) const;  // Requires that it is there.

 private:
  void Add(std::string name, std::vector<int64_t> shape, bool decayed, double mean,
           double deviation);

  std::vector<Parameter> parameters_;
  size_t floats_ = 0;
  size_t count_ = 0;
};

// Fills `weights` from (seed, parameter's name, element's index) alone, so the same weights come
// out in every layout. Requires weights.size() == table.floats().
void Initialise(const ParameterTable& table, uint64_t seed, std::span<float> weights);

// Model FLOPs of training on `tokens` tokens: 6 for each weight of a matrix product and token, and
// 12 * layers * hidden * sequence for attention (Chowdhery et al., PaLM, 2022, appendix B), halved
// because it is causal.
Flops ModelFlops(const spec::ModelSpec& model, uint64_t tokens);

}  // namespace longhaul::trainer
