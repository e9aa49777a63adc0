#include "trainer/model/parameters.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"
#include "spec/model/parameters.h"

namespace longhaul::trainer {
namespace {

// A number in (0, 1] from a 64-bit word.
// 53 bits are the precision of a double. The result is above 0, as the logarithm requires.
double Unit(uint64_t word) { return static_cast<double>((word >> 11) + 1) * 0x1p-53; }

// A standard normal number for a place in a stream (Box and Muller, 1958).
// Each place has its own generator, so the value does not depend on which rank computes it, or in
// which order. A part of a tensor gets the numbers that it would have in the whole tensor.
double Normal(uint64_t key, uint64_t index) {
  uint64_t state = key + 2 * index * 0x9E3779B97F4A7C15u;
  const double radius = std::sqrt(-2 * std::log(Unit(SplitMix64(state))));
  return radius * std::cos(2 * std::numbers::pi * Unit(SplitMix64(state)));
}

}  // namespace

// The products are computed first, so the parts add up to the whole even if it cannot be divided
// evenly.
Cut CutOf(int64_t whole, const ModelPart& part) {
  return {whole * part.part / part.tensor, whole * (part.part + 1) / part.tensor};
}

// The contiguous runs of a part in the whole tensor: `here` counts from the start of the part,
// `whole` from the start of the tensor.
std::vector<Stretch> Stretches(const Parameter& parameter) {
  const Box& box = parameter.box;
  if (box.dimension < 0) return {{0, 0, parameter.count}};
  size_t columns = 1;  // of what follows the first dimension
  for (size_t i = 1; i < box.whole.size(); ++i) columns *= static_cast<size_t>(box.whole[i]);
  const auto rows = static_cast<size_t>(box.whole[0]);
  const auto begin = static_cast<size_t>(box.cut.begin);
  const auto size = static_cast<size_t>(box.cut.size());
  std::vector<Stretch> stretches;
  if (box.dimension == 0) {
    const auto groups = static_cast<size_t>(box.groups);
    for (size_t group = 0; group < groups; ++group) {
      stretches.push_back(
          {group * size * columns, (group * (rows / groups) + begin) * columns, size * columns});
    }
    return stretches;
  }
  CHECK(box.dimension == 1 && box.groups == 1 && box.whole.size() == 2);
  for (size_t row = 0; row < rows; ++row) {
    stretches.push_back({row * size, row * columns + begin, size});
  }
  return stretches;
}

ParameterTable::ParameterTable(const spec::ModelSpec& model, const ModelPart& part) : part_(part) {
  if (part.first()) AddEmbeddings(model);
  const auto layers = spec::LayersOfStage(model.layers, part.pipeline, part.stage);
  for (uint32_t layer = layers.begin; layer < layers.end; ++layer) AddLayer(model, layer);
  if (!part.last()) return;
  AddNorm("model.norm", model.hidden);
  const int64_t vocabulary = model.vocabulary;
  Add("model.output.weight", {{vocabulary, model.hidden}, 0, 1, CutOf(vocabulary, part)},
      {true, 0, 0.01});
}

void ParameterTable::AddEmbeddings(const spec::ModelSpec& model) {
  const int64_t vocabulary = model.vocabulary;
  const Box words{{vocabulary, model.hidden}, 0, 1, CutOf(vocabulary, part_)};
  Add("model.embedding.token.weight", words, {true, 0, 0.1});
  for (uint32_t back = 1; back <= kPreviousTokens; ++back) {
    Add("model.embedding.previous." + std::to_string(back) + ".weight", words, {true, 0, 0.1});
  }
  Add("model.embedding.position.weight", {{model.sequence, model.hidden}, -1, 1, {}},
      {false, 0, 0.02});
}

void ParameterTable::AddLayer(const spec::ModelSpec& model, uint32_t layer) {
  const int64_t hidden = model.hidden;
  const double in = 1 / std::sqrt(static_cast<double>(hidden));
  // What each block adds to the residual stream starts small enough that the sum over all blocks
  // keeps its size (Radford et al., GPT-2, 2019).
  const double residual = 1 / std::sqrt(2.0 * model.layers);
  const std::string prefix = "model.layers." + std::to_string(layer);
  const Cut heads = CutOf(hidden, part_);
  const Cut inner = CutOf(4 * hidden, part_);
  AddNorm(prefix + ".attention.norm", hidden);
  AddLinear(prefix + ".attention.qkv", {{3 * hidden, hidden}, 0, 3, heads}, in);
  AddLinear(prefix + ".attention.output", {{hidden, hidden}, 1, 1, heads}, in * residual);
  AddNorm(prefix + ".mlp.norm", hidden);
  AddLinear(prefix + ".mlp.up", {{4 * hidden, hidden}, 0, 1, inner}, in);
  AddLinear(prefix + ".mlp.down", {{hidden, 4 * hidden}, 1, 1, inner}, in / 2 * residual);
}

void ParameterTable::AddNorm(const std::string& name, int64_t width) {
  Add(name + ".weight", {{width}, -1, 1, {}}, {false, 1, 0});
  Add(name + ".bias", {{width}, -1, 1, {}}, {false, 0, 0});
}

void ParameterTable::AddLinear(const std::string& name, Box weight, double spread) {
  Box bias = weight;
  bias.whole = {weight.whole[0]};
  if (weight.dimension == 1) bias.dimension = -1;
  Add(name + ".weight", std::move(weight), {true, 0, spread});
  Add(name + ".bias", std::move(bias), {false, 0, 0});
}

void ParameterTable::Add(std::string name, Box box, const Start& start) {
  if (part_.tensor == 1) box.dimension = -1;
  Parameter parameter;
  parameter.name = std::move(name);
  parameter.shape = box.whole;
  if (box.dimension >= 0) {
    parameter.shape[static_cast<size_t>(box.dimension)] = box.groups * box.cut.size();
  }
  parameter.offset = floats_;
  parameter.count = 1;
  parameter.decayed = start.decayed;
  parameter.mean = static_cast<float>(start.mean);
  parameter.deviation = static_cast<float>(start.deviation);
  parameter.box = std::move(box);
  for (const int64_t size : parameter.shape) parameter.count *= static_cast<size_t>(size);
  count_ += parameter.count;
  // Each parameter begins at a multiple of kParameterAlignment, so the flat buffer has gaps, which
  // stay zero.
  floats_ +=
      (parameter.count + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
  parameters_.push_back(std::move(parameter));
}

const Parameter& ParameterTable::Find(std::string_view name) const {
  const auto found = std::find_if(parameters_.begin(), parameters_.end(),
                                  [&](const Parameter& p) { return p.name == name; });
  CHECK(found != parameters_.end()) << "no parameter named " << name;
  return *found;
}

// The key depends on the name, so another number of layers or parts leaves the other parameters
// unchanged.
void Initialise(const ParameterTable& table, uint64_t seed, std::span<float> weights) {
  CHECK(weights.size() == table.floats());
  std::fill(weights.begin(), weights.end(), 0.0F);
  for (const Parameter& parameter : table.parameters()) {
    const std::span<float> values = weights.subspan(parameter.offset, parameter.count);
    const uint64_t key = Hash64(parameter.name, seed);
    for (const Stretch& stretch : Stretches(parameter)) {
      for (size_t i = 0; i < stretch.count; ++i) {
        const double noise =
            parameter.deviation == 0 ? 0 : parameter.deviation * Normal(key, stretch.whole + i);
        values[stretch.here + i] = static_cast<float>(parameter.mean + noise);
      }
    }
  }
}

Flops ModelFlops(const spec::ModelSpec& model, uint64_t tokens) {
  const double forward = spec::TokenForward(spec::FromBuiltIn(model)).total();
  return Flops(3 * static_cast<double>(tokens) * forward);
}

}  // namespace longhaul::trainer
