#include "training/hugging_face/tensors.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/reshard/box.h"
#include "spec/model/parameters.h"
#include "training/hugging_face/testing.h"

namespace longhaul::training::tensors_test {
namespace {

using testing_support::kAllFamilies;
using testing_support::Parsed;
using testing_support::TinyConfig;

std::vector<Piece> Find(const HuggingFaceConfig& config, const std::string& name) {
  for (const Parameter& parameter : AllParameters(config.model, {}, {})) {
    if (parameter.name == name) return PiecesOf(config.model, config.family, parameter);
  }
  ADD_FAILURE() << name;
  return {};
}

// Rows [begin, end) of each tensor that some parameter has.
TEST(Tensors, EachElementOfTheCheckpointIsInOneParameter) {
  for (const Family family : kAllFamilies) {
    for (const bool tied : {false, true}) {
      nlohmann::json text = TinyConfig(family);
      text["tie_word_embeddings"] = tied;
      const HuggingFaceConfig config = Parsed(text);
      std::map<std::string, int64_t> rest;  // elements that no parameter has had yet
      std::set<std::pair<std::string, int64_t>> begins;
      int64_t elements = 0;
      for (const Parameter& parameter : AllParameters(config.model, {}, {})) {
        const std::vector<Piece> pieces = PiecesOf(config.model, family, parameter);
        const auto parts = static_cast<int64_t>(pieces.size());
        EXPECT_EQ(parameter.count() % parts, 0);
        elements += parameter.count();
        for (const Piece& piece : pieces) {
          EXPECT_TRUE(begins.emplace(piece.tensor, piece.row).second) << piece.tensor;
          rest.try_emplace(piece.tensor, checkpoint::Box::Whole(piece.shape).elements());
          rest[piece.tensor] -= parameter.count() / parts;
        }
      }
      for (const auto& [tensor, count] : rest) EXPECT_EQ(count, 0) << tensor;
      EXPECT_EQ(rest.contains("lm_head.weight"), !tied);
      EXPECT_EQ(elements, spec::Parameters(config.model.shape)) << ToString(family);
    }
  }
}

TEST(Tensors, QueriesKeysAndValuesOfGpt2AreColumnsOfOneTensor) {
  const HuggingFaceConfig config = Parsed(TinyConfig(Family::kGpt2));
  const std::vector<Piece> key = Find(config, "model.layers.1.attention.key.weight");
  ASSERT_EQ(key.size(), 1u);
  EXPECT_EQ(key.front(),
            (Piece{"transformer.h.1.attn.c_attn.weight", {8, 24}, true, 8, std::nullopt}));
  const std::vector<Piece> bias = Find(config, "model.layers.1.attention.value.bias");
  ASSERT_EQ(bias.size(), 1u);
  EXPECT_EQ(bias.front(),
            (Piece{"transformer.h.1.attn.c_attn.bias", {24}, false, 16, std::nullopt}));
  EXPECT_EQ(Find(config, "model.layers.0.mlp.up.weight").front().shape,
            (std::vector<int64_t>{8, 32}));
}

TEST(Tensors, EachExpertIsATensor) {
  const HuggingFaceConfig mixtral = Parsed(TinyConfig(Family::kMixtral));
  const std::vector<Piece> up = Find(mixtral, "model.layers.0.experts.up.weight");
  ASSERT_EQ(up.size(), 4u);
  EXPECT_EQ(up[3],
            (Piece{"model.layers.0.block_sparse_moe.experts.3.w3.weight", {12, 8}, false, 0, 3}));
  const HuggingFaceConfig qwen = Parsed(TinyConfig(Family::kQwen3Moe));
  EXPECT_EQ(Find(qwen, "model.layers.1.experts.down.weight")[2].tensor,
            "model.layers.1.mlp.experts.2.down_proj.weight");
  EXPECT_EQ(Find(qwen, "model.layers.1.router.weight").front().tensor,
            "model.layers.1.mlp.gate.weight");
}

TEST(Tensors, NamesOfGpt2MayLackTheirPrefix) {
  EXPECT_EQ(CanonicalName(Family::kGpt2, "wte.weight"), "transformer.wte.weight");
  EXPECT_EQ(CanonicalName(Family::kGpt2, "transformer.wte.weight"), "transformer.wte.weight");
  EXPECT_EQ(CanonicalName(Family::kGpt2, "lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(CanonicalName(Family::kLlama, "norm.weight"), "norm.weight");
}

TEST(Tensors, ConstantsAreNoParameters) {
  EXPECT_TRUE(IsConstant(Family::kGpt2, "h.0.attn.bias"));
  EXPECT_TRUE(IsConstant(Family::kGpt2, "transformer.h.0.attn.masked_bias"));
  EXPECT_FALSE(IsConstant(Family::kGpt2, "h.0.attn.c_attn.bias"));
  EXPECT_TRUE(IsConstant(Family::kLlama, "model.layers.0.self_attn.rotary_emb.inv_freq"));
  EXPECT_FALSE(IsConstant(Family::kLlama, "model.layers.0.attn.bias"));
}

}  // namespace
}  // namespace longhaul::training::tensors_test
