#include "trainer/parameters.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"
#include "spec/parameters.h"

namespace longhaul::trainer {
namespace {

// A number in (0, 1] from a 64-bit word.
double Unit(uint64_t word) { return static_cast<double>((word >> 11) + 1) * 0x1p-53; }

// A standard normal number for a place in a stream (Box and Muller, 1958).
double Normal(uint64_t key, uint64_t index) {
  uint64_t state = key + 2 * index * 0x9E3779B97F4A7C15u;
  const double radius = std::sqrt(-2 * std::log(Unit(SplitMix64(state))));
  return radius * std::cos(2 * std::numbers::pi * Unit(SplitMix64(state)));
}

}  // namespace

ParameterTable::ParameterTable(const spec::ModelSpec& model) {
  const int64_t hidden = model.hidden;
  const int64_t vocabulary = model.vocabulary;
  const double in = 1 / std::sqrt(static_cast<double>(hidden));
  // What each block adds to the residual stream starts small enough that the sum over all blocks
  // keeps its size (Radford et al., GPT-2, 2019).
  const double residual = 1 / std::sqrt(2.0 * model.layers);
  const auto norm = [&](const std::string& name) {
    Add(name + ".weight", {hidden}, false, 1, 0);
    Add(name + ".bias", {hidden}, false, 0, 0);
  };
  const auto linear = [&](const std::string& name, int64_t outputs, int64_t inputs, double spread) {
    Add(name + ".weight", {outputs, inputs}, true, 0, spread);
    Add(name + ".bias", {outputs}, false, 0, 0);
  };
  Add("model.embedding.token.weight", {vocabulary, hidden}, true, 0, 0.1);
  for (uint32_t back = 1; back <= kPreviousTokens; ++back) {
    Add("model.embedding.previous." + std::to_string(back) + ".weight", {vocabulary, hidden}, true,
        0, 0.1);
  }
  Add("model.embedding.position.weight", {model.sequence, hidden}, false, 0, 0.02);
  for (uint32_t layer = 0; layer < model.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer);
    norm(prefix + ".attention.norm");
    linear(prefix + ".attention.qkv", 3 * hidden, hidden, in);
    linear(prefix + ".attention.output", hidden, hidden, in * residual);
    norm(prefix + ".mlp.norm");
    linear(prefix + ".mlp.up", 4 * hidden, hidden, in);
    linear(prefix + ".mlp.down", hidden, 4 * hidden, in / 2 * residual);
  }
  norm("model.norm");
  Add("model.output.weight", {vocabulary, hidden}, true, 0, 0.01);
}

void ParameterTable::Add(std::string name, std::vector<int64_t> shape, bool decayed, double mean,
                         double deviation) {
  Parameter parameter{std::move(name),
                      std::move(shape),
                      floats_,
                      1,
                      decayed,
                      static_cast<float>(mean),
                      static_cast<float>(deviation)};
  for (const int64_t size : parameter.shape) parameter.count *= static_cast<size_t>(size);
  count_ += parameter.count;
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

void Initialise(const ParameterTable& table, uint64_t seed, std::span<float> weights) {
  CHECK(weights.size() == table.floats());
  std::fill(weights.begin(), weights.end(), 0.0F);
  for (const Parameter& parameter : table.parameters()) {
    const std::span<float> values = weights.subspan(parameter.offset, parameter.count);
    const uint64_t key = Hash64(parameter.name, seed);
    for (size_t i = 0; i < values.size(); ++i) {
      const double noise = parameter.deviation == 0 ? 0 : parameter.deviation * Normal(key, i);
      values[i] = static_cast<float>(parameter.mean + noise);
    }
  }
}

Flops ModelFlops(const spec::ModelSpec& model, uint64_t tokens) {
  const double forward = spec::TokenForward(spec::FromBuiltIn(model)).total();
  return Flops(3 * static_cast<double>(tokens) * forward);
}

}  // namespace longhaul::trainer
