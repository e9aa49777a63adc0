// The parameters of the byte-level GPT: names, shapes, offsets in the flat buffers, initial values.
// Weights, gradients and both moments are four flat buffers with this one layout.
//
// A rank may hold a part: the layers of its stage, and its tensor part of each matrix. The division
// follows Shoeybi et al., Megatron-LM, 2019: queries, keys and values by heads, the MLP's upper
// matrix by outputs, both lower matrices by inputs, embeddings and output by words of the
// vocabulary, which need not divide. Norms, positions and the lower matrices' biases are whole on
// each part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "spec/job/job.h"

namespace longhaul::trainer {

// The part of the model that a rank holds.
struct ModelPart {
  uint32_t tensor = 1;
  uint32_t part = 0;
  uint32_t pipeline = 1;
  uint32_t stage = 0;

  bool whole() const { return tensor == 1 && pipeline == 1; }
  bool first() const { return stage == 0; }
  bool last() const { return stage + 1 == pipeline; }
};

// The range of `whole` items in the rank's tensor part: [begin, end).
struct Cut {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};
Cut CutOf(int64_t whole, const ModelPart& part);

// The box of a parameter that this rank holds.
struct Box {
  std::vector<int64_t> whole;  // the parameter's shape
  int dimension = -1;          // the divided one; -1: none
  int64_t groups = 1;          // the dimension's equal groups, each of which is divided by `cut`
  Cut cut;
};

struct Parameter {
  std::string name;            // "model.layers.0.attention.qkv.weight"
  std::vector<int64_t> shape;  // of this rank's part
  size_t offset = 0;           // in floats, a multiple of kParameterAlignment
  size_t count = 0;
  bool decayed = false;  // matrices; not norms, biases and positions
  float mean = 0;        // initial values are normal around this
  float deviation = 0;
  Box box;
};

// A contiguous range of a parameter's elements, both in the part and in the whole.
struct Stretch {
  size_t here = 0;   // index of its first element
  size_t whole = 0;  // the same in the whole
  size_t count = 0;
};
std::vector<Stretch> Stretches(const Parameter& parameter);

// A position's input is the embedding of its own token and, from separate tables, of this many
// tokens before it: otherwise attention would first have to learn to fetch them.
using spec::kPreviousTokens;

// Each parameter begins on its own cache line; the gap before the next one is always zero.
constexpr size_t kParameterAlignment = 16;

class ParameterTable {
 public:
  explicit ParameterTable(const spec::ModelSpec& model, const ModelPart& part = {});

  const std::vector<Parameter>& parameters() const { return parameters_; }
  size_t floats() const { return floats_; }            // a flat buffer's length
  size_t count() const { return count_; }              // of parameters, without the gaps
  const Parameter& Find(std::string_view name) const;  // requires that it exists
  const ModelPart& part() const { return part_; }

 private:
  struct Start {
    bool decayed = false;
    double mean = 0;
    double deviation = 0;
  };
  void Add(std::string name, Box box, const Start& start);
  void AddNorm(const std::string& name, int64_t width);
  void AddLinear(const std::string& name, Box weight, double spread);
  void AddEmbeddings(const spec::ModelSpec& model);
  void AddLayer(const spec::ModelSpec& model, uint32_t layer);

  ModelPart part_;
  std::vector<Parameter> parameters_;
  size_t floats_ = 0;
  size_t count_ = 0;
};

// Fills `weights` from (seed, parameter's name, element's index in the whole) alone, so the same
// weights come out in every layout. Requires weights.size() == table.floats().
void Initialise(const ParameterTable& table, uint64_t seed, std::span<float> weights);

// Model FLOPs of training on `tokens` tokens: 6 for each weight of a matrix product and token, and
// 12 * layers * hidden * sequence for attention (Chowdhery et al., PaLM, 2022, appendix B), halved
// because it is causal.
Flops ModelFlops(const spec::ModelSpec& model, uint64_t tokens);

}  // namespace longhaul::trainer
