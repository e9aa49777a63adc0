// For tests of resharding: random small models, random layouts of them, and a reference state.
// Header only; not part of the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "checkpoint/reshard/layout_shards.h"

namespace longhaul::checkpoint::testing_support {

struct SmallModel {
  uint32_t layers = 0;
  uint32_t experts = 0;
  std::vector<TensorRule> rules;
  std::vector<uint64_t> element_bytes;
  std::vector<std::string> names;

  void Add(const std::string& name, TensorRule rule) {
    // Weights, then the optimizer's two moments, divided as the weights are.
    rule.zero_stage = 3;
    rules.push_back(rule);
    element_bytes.push_back(2);
    names.push_back(name);
    rule.zero_stage = 1;
    for (const char* moment : {".moment1", ".moment2"}) {
      rules.push_back(rule);
      element_bytes.push_back(4);
      names.push_back(name + moment);
    }
  }
  // ZeRO's form and groups are derived from the layout, so that all of them occur.
  ShardingProblem problem(const spec::Layout& layout) const {
    ShardingProblem problem{rules, layers, experts};
    if ((layout.tensor + layout.data) % 2 == 0) problem.zero_form = ZeroForm::kRows;
    const uint32_t replicas = layout.data * layout.context;
    const uint32_t of_expert = replicas * layout.tensor / (layout.expert * layout.expert_tensor);
    if (replicas % 2 == 0 && of_expert % 2 == 0 && layout.pipeline % 2 == 0) problem.zero_group = 2;
    return problem;
  }
};

inline SmallModel RandomModel(Random& random) {
  SmallModel model;
  model.layers = 1 + static_cast<uint32_t>(random.Below(5));
  model.experts = random.Below(2) == 0 ? 0 : 4;
  const auto hidden = static_cast<int64_t>(8 * (1 + random.Below(3)));
  const int64_t vocabulary = 8 * (2 + static_cast<int64_t>(random.Below(4))) + 1;
  model.Add("embedding", {{vocabulary, hidden}, 0, 1, true, TensorPlace::kFirstStage, 0, -1, 4});
  for (uint32_t layer = 0; layer < model.layers; ++layer) {
    const auto add = [&](const char* name, std::vector<int64_t> shape, int dim, uint32_t fused,
                         int64_t expert) {
      model.Add("layers." + std::to_string(layer) + name + std::to_string(expert),
                {std::move(shape), dim, fused, false, TensorPlace::kLayer, layer, expert, 4});
    };
    add(".norm", {hidden}, -1, 1, -1);
    add(".qkv", {3 * hidden, hidden}, 0, 3, -1);
    add(".output", {hidden, hidden}, 1, 1, -1);
    for (uint32_t expert = 0; expert < model.experts; ++expert) {
      add(".gate_up", {16, hidden}, 0, 2, expert);
      add(".down", {hidden, 8}, 1, 1, expert);
    }
    if (model.experts == 0) add(".gate_up", {32, hidden}, 0, 2, -1);
  }
  model.Add("scale", {{}, -1, 1, false, TensorPlace::kEveryStage, 0, -1, 4});
  model.Add("head", {{vocabulary, hidden}, 0, 1, true, TensorPlace::kLastStage, 0, -1, 4});
  return model;
}

inline spec::Layout RandomLayout(Random& random, const SmallModel& model) {
  const auto power = [&](uint32_t most) { return uint32_t{1} << random.Below(most + 1); };
  spec::Layout layout;
  while (true) {
    layout.tensor = power(2);
    layout.pipeline = 1 + static_cast<uint32_t>(random.Below(3));
    layout.virtual_pipeline = 1 + static_cast<uint32_t>(random.Below(2));
    layout.context = power(1);
    layout.data = 1 + static_cast<uint32_t>(random.Below(4));
    layout.expert = model.experts == 0 ? 1 : power(2);
    layout.expert_tensor = model.experts == 0 ? 1 : power(1);
    layout.zero_stage = static_cast<uint32_t>(random.Below(4));
    if (CheckSharding(model.problem(layout), layout).ok()) return layout;
  }
}

// Fills `to` with the bytes of the reference state.
inline void Fill(uint32_t tensor, const Box& box, const std::vector<int64_t>& shape, uint64_t bytes,
                 std::vector<std::byte>& to, uint64_t at) {
  std::vector<int64_t> index = box.offsets();
  for (int64_t i = 0; i < box.elements(); ++i) {
    int64_t flat = 0;
    for (size_t dim = 0; dim < shape.size(); ++dim) flat = flat * shape[dim] + index[dim];
    const uint64_t key[2] = {tensor, static_cast<uint64_t>(flat)};
    const uint64_t value =
        Hash64(std::string_view(reinterpret_cast<const char*>(key), sizeof(key)), 7);
    std::memcpy(to.data() + at + static_cast<uint64_t>(i) * bytes, &value, bytes);
    for (size_t dim = shape.size(); dim-- > 0;) {
      if (++index[dim] < box.end(dim)) break;
      index[dim] = box.offset(dim);
    }
  }
}

// Counts the distinct elements of the wanted boxes by brute force.
inline uint64_t DistinctBytes(const SmallModel& model, const std::vector<WantedShard>& wanted) {
  std::set<std::pair<uint32_t, int64_t>> elements;
  uint64_t bytes = 0;
  for (const WantedShard& shard : wanted) {
    const auto& shape = model.rules[shard.tensor].shape;
    std::vector<int64_t> index = shard.box.offsets();
    for (int64_t i = 0; i < shard.box.elements(); ++i) {
      int64_t flat = 0;
      for (size_t dim = 0; dim < shape.size(); ++dim) flat = flat * shape[dim] + index[dim];
      if (elements.emplace(shard.tensor, flat).second) bytes += model.element_bytes[shard.tensor];
      for (size_t dim = shape.size(); dim-- > 0;) {
        if (++index[dim] < shard.box.end(dim)) break;
        index[dim] = shard.box.offset(dim);
      }
    }
  }
  return bytes;
}

inline std::vector<WantedShard> ShardsOfAll(const SmallModel& model, const spec::Layout& layout) {
  std::vector<WantedShard> all;
  for (uint32_t rank = 0; rank < layout.devices(); ++rank) {
    const auto shards = ShardsOfRank(model.problem(layout), layout, rank);
    all.insert(all.end(), shards.begin(), shards.end());
  }
  return all;
}

}  // namespace longhaul::checkpoint::testing_support
