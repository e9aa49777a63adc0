#include "training/parameters.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"

namespace longhaul::training {
namespace {

// Makes the parameters of one layer.
class Maker {
 public:
  Maker(const ModelConfig& config, const Layout& layout, const Place& place, int32_t layer)
      : config_(config), shape_(config.shape), layout_(layout), place_(place), layer_(layer) {}

  void Embedding() {
    Add("model.embedding.token.weight", {shape_.vocabulary, shape_.hidden}, 0).tied =
        shape_.tied_embeddings;
    if (shape_.position != spec::Position::kLearned) return;
    Parameter& position =
        Add("model.embedding.position.weight", {shape_.sequence_length, shape_.hidden}, -1);
    position.decayed = false;
    position.partial = layout_.sequence;
  }

  void Output() {
    Norm("model.norm", shape_.hidden, layout_.sequence);
    if (shape_.tied_embeddings) {
      Add("model.embedding.token.weight", {shape_.vocabulary, shape_.hidden}, 0).tied = true;
    } else {
      Add("model.output.weight", {shape_.vocabulary, shape_.hidden}, 0);
    }
  }

  void Layer() {
    const std::string prefix = "model.layers." + std::to_string(layer_);
    Attention(prefix + ".attention");
    Norm(prefix + ".mlp.norm", shape_.hidden, layout_.sequence);
    if (!shape_.has_experts(static_cast<uint32_t>(layer_))) {
      Ffn(prefix + ".mlp", shape_.ffn_hidden);
      return;
    }
    const spec::Experts& experts = *shape_.experts;
    // Its gradient comes from each part's share of the experts' outputs.
    Add(prefix + ".router.weight", {experts.count, shape_.hidden}, -1).partial = layout_.tensor > 1;
    const int64_t inner = experts.ffn_hidden;
    if (shape_.gated_ffn) Expert(prefix + ".experts.gate.weight", inner, shape_.hidden, 1);
    Expert(prefix + ".experts.up.weight", inner, shape_.hidden, 1);
    Expert(prefix + ".experts.down.weight", shape_.hidden, inner, 2);
    if (experts.shared > 0) {
      Ffn(prefix + ".shared", int64_t{experts.shared} * experts.shared_ffn_hidden);
    }
  }

  std::vector<Parameter> Take() && { return std::move(parameters_); }

 private:
  void Attention(const std::string& prefix) {
    const int64_t queries = int64_t{shape_.heads} * shape_.head_dim;
    const int64_t keys = int64_t{shape_.kv_heads} * shape_.head_dim;
    const uint32_t kv_parts = std::min(layout_.tensor, shape_.kv_heads);
    Norm(prefix + ".norm", shape_.hidden, layout_.sequence);
    Linear(prefix + ".query", queries, shape_.hidden, 0, shape_.qkv_bias, layout_.tensor);
    Linear(prefix + ".key", keys, shape_.hidden, 0, shape_.qkv_bias, kv_parts);
    Linear(prefix + ".value", keys, shape_.hidden, 0, shape_.qkv_bias, kv_parts);
    if (shape_.qk_norm) {
      // The same weights for each head, and each part has its own heads.
      Scale(prefix + ".query_norm.weight", shape_.head_dim, layout_.tensor > 1);
      Scale(prefix + ".key_norm.weight", shape_.head_dim, layout_.tensor > 1);
    }
    Linear(prefix + ".output", shape_.hidden, queries, 1, shape_.bias, layout_.tensor);
  }

  void Ffn(const std::string& prefix, int64_t inner) {
    if (shape_.gated_ffn) {
      Linear(prefix + ".gate", inner, shape_.hidden, 0, shape_.bias, layout_.tensor);
    }
    Linear(prefix + ".up", inner, shape_.hidden, 0, shape_.bias, layout_.tensor);
    Linear(prefix + ".down", shape_.hidden, inner, 1, shape_.bias, layout_.tensor);
  }

  void Expert(const std::string& name, int64_t rows, int64_t columns, int dimension) {
    Parameter& parameter = Add(name, {config_.shape.experts->count, rows, columns}, dimension);
    parameter.expert = true;
    parameter.expert_cut = CutOf(parameter.whole[0], layout_.expert, place_.expert_part);
    parameter.shape[0] = parameter.expert_cut.size();
  }

  void Norm(const std::string& name, int64_t width, bool partial) {
    Scale(name + ".weight", width, partial);
    if (shape_.normalization == spec::Normalization::kLayer) Bias(name, width, -1, 1, partial);
  }

  void Scale(std::string name, int64_t width, bool partial) {
    Parameter& weight = Add(std::move(name), {width}, -1);
    weight.mean = 1;
    weight.deviation = 0;
    weight.decayed = false;
    weight.partial = partial;
  }

  void Linear(const std::string& name, int64_t outputs, int64_t inputs, int dimension, bool bias,
              uint32_t parts) {
    Add(name + ".weight", {outputs, inputs}, dimension, parts);
    // The bias of a matrix that is divided by inputs is added once, after the sum over the parts.
    if (bias) {
      Bias(name, outputs, dimension == 0 ? 0 : -1, parts, dimension != 0 && layout_.sequence);
    }
  }

  void Bias(const std::string& name, int64_t width, int dimension, uint32_t parts, bool partial) {
    Parameter& bias = Add(name + ".bias", {width}, dimension, parts);
    bias.deviation = 0;
    bias.decayed = false;
    bias.partial = partial;
  }

  Parameter& Add(std::string name, std::vector<int64_t> whole, int dimension) {
    return Add(std::move(name), std::move(whole), dimension, layout_.tensor);
  }
  Parameter& Add(std::string name, std::vector<int64_t> whole, int dimension, uint32_t parts) {
    Parameter& parameter = parameters_.emplace_back();
    parameter.name = std::move(name);
    parameter.whole = std::move(whole);
    parameter.shape = parameter.whole;
    parameter.layer = layer_;
    parameter.decayed = true;
    parameter.deviation = config_.initial_deviation;
    if (dimension >= 0 && layout_.tensor > 1) {
      parameter.tensor_dimension = dimension;
      parameter.tensor_parts = parts;
      const auto index = static_cast<size_t>(dimension);
      parameter.tensor_cut =
          CutOf(parameter.whole[index], parts, place_.part * parts / layout_.tensor);
      parameter.shape[index] = parameter.tensor_cut.size();
    }
    return parameter;
  }

  const ModelConfig& config_;
  const spec::Model& shape_;
  const Layout& layout_;
  const Place& place_;
  const int32_t layer_;
  std::vector<Parameter> parameters_;
};

// Uniform in (0, 1), from a counter.
double UniformAt(uint64_t key, uint64_t counter) {
  uint64_t state = key ^ (counter * 0xD1B54A32D192ED03u);
  return (static_cast<double>(SplitMix64(state) >> 11) + 0.5) * 0x1p-53;
}

}  // namespace

int64_t Parameter::count() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

std::vector<Parameter> ParametersOf(const ModelConfig& config, const Layout& layout,
                                    const Place& place, int32_t layer) {
  Maker maker(config, layout, place, layer);
  if (layer == kEmbedding) {
    maker.Embedding();
  } else if (layer == kOutput) {
    maker.Output();
  } else {
    CHECK(layer >= 0 && static_cast<uint32_t>(layer) < config.shape.layers);
    maker.Layer();
  }
  return std::move(maker).Take();
}

Cut LayersOfStage(const ModelConfig& config, const Layout& layout, uint32_t stage) {
  return CutOf(config.shape.layers, layout.stages(), stage);
}

std::vector<uint32_t> TokenRanks(const Layout& layout, uint32_t rank, bool expert) {
  if (!expert) return RanksOf(layout, rank, {.ring = true, .replica = true});
  return ExpertReplicas(layout, rank);
}

std::vector<uint32_t> ShareRanks(const Layout& layout, uint32_t rank, const Parameter& parameter) {
  const std::vector<uint32_t> group = RanksOf(layout, rank, {.part = true});
  if (parameter.partial) return group;
  if (parameter.tensor_dimension < 0 || parameter.tensor_parts == layout.tensor) return {rank};
  // Parts with the same head of keys and values are neighbours.
  const uint32_t same = layout.tensor / parameter.tensor_parts;
  const uint32_t first = PlaceOf(layout, rank).part / same * same;
  return {group.begin() + first, group.begin() + first + same};
}

bool CountsInTensorGroup(const Layout& layout, const Place& place, const Parameter& parameter) {
  if (parameter.tensor_dimension < 0) return place.part == 0;
  return place.part % (layout.tensor / parameter.tensor_parts) == 0;
}

uint64_t InitialKey(const Parameter& parameter, uint64_t seed) {
  return Hash64(parameter.name, seed);
}

// Box and Muller's transformation of two uniform numbers.
double InitialValue(const Parameter& parameter, uint64_t key, uint64_t index) {
  if (parameter.deviation == 0) return parameter.mean;
  const double radius = std::sqrt(-2 * std::log(UniformAt(key, 2 * index + 1)));
  const double angle = 2 * std::numbers::pi * UniformAt(key, 2 * index + 2);
  return parameter.mean + parameter.deviation * radius * std::cos(angle);
}

}  // namespace longhaul::training
