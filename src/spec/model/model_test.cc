#include "spec/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::spec {
namespace {

using testing::HasSubstr;

Model Llama8b() {
  Model model;
  model.layers = 32;
  model.hidden = 4096;
  model.ffn_hidden = 14336;
  model.heads = 32;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.vocabulary = 128256;
  model.sequence_length = 8192;
  return model;
}

TEST(CheckModel, AcceptsARealOne) { EXPECT_TRUE(CheckModel(Llama8b()).ok()); }

TEST(CheckModel, NamesEachMistakeOnALineOfItsOwn) {
  Model model = Llama8b();
  model.layers = 0;
  model.kv_heads = 5;
  model.hidden = (1 << 20) + 1;
  const Status status = CheckModel(model);
  EXPECT_THAT(status.message(), HasSubstr("layers: 0 is out of range: 1 to 10,000"));
  EXPECT_THAT(status.message(), HasSubstr("\nkv_heads: 5 does not divide the 32 heads"));
  EXPECT_THAT(status.message(), HasSubstr("hidden: 1,048,577 is out of range"));
}

TEST(CheckModel, WantsAnFfnOnlyWhereALayerIsDense) {
  Model model = Llama8b();
  model.ffn_hidden = 0;
  EXPECT_FALSE(CheckModel(model).ok());
  model.experts = Experts{.count = 8, .top_k = 2, .ffn_hidden = 14336};
  EXPECT_TRUE(CheckModel(model).ok()) << CheckModel(model);
  model.experts->dense_first_layers = 1;
  EXPECT_FALSE(CheckModel(model).ok());
}

TEST(CheckModel, RefusesExpertsThatCannotBe) {
  Model model = Llama8b();
  model.experts = Experts{.count = 8, .top_k = 9, .ffn_hidden = 14336};
  EXPECT_THAT(CheckModel(model).message(), HasSubstr("a token visits 9 of 8 experts"));
  model.experts->top_k = 2;
  model.experts->every = 0;  // would divide by zero
  EXPECT_FALSE(CheckModel(model).ok());
  model.experts->every = 1;
  model.experts->capacity_factor = -1;
  EXPECT_FALSE(CheckModel(model).ok());
}

TEST(CheckModel, RefusesGroupsThatDontHoldTheExperts) {
  Model model = Llama8b();
  model.experts =
      Experts{.count = 256, .top_k = 8, .ffn_hidden = 2048, .groups = 8, .groups_top_k = 4};
  EXPECT_TRUE(CheckModel(model).ok());
  model.experts->groups = 7;
  EXPECT_THAT(CheckModel(model).message(), HasSubstr("7 does not divide the 256 experts"));
  model.experts->groups = 8;
  model.experts->groups_top_k = 9;
  EXPECT_THAT(CheckModel(model).message(), HasSubstr("9 of 8 groups"));
  model.experts->groups = 64;
  model.experts->groups_top_k = 1;
  EXPECT_THAT(CheckModel(model).message(), HasSubstr("don't hold the 8"));
}

TEST(Model, KnowsItsLayersWithExperts) {
  Model model = Llama8b();
  EXPECT_FALSE(model.has_experts(0));
  model.experts = Experts{.count = 8, .top_k = 2, .ffn_hidden = 64, .dense_first_layers = 1};
  EXPECT_FALSE(model.has_experts(0));
  EXPECT_TRUE(model.has_experts(1));
  model.experts->dense_first_layers = 0;
  model.experts->every = 2;
  EXPECT_FALSE(model.has_experts(0));
  EXPECT_TRUE(model.has_experts(1));
  EXPECT_FALSE(model.has_experts(2));
}

TEST(FromBuiltIn, IsAGptWithBiasesAndAnOutputOfItsOwn) {
  const Model model = FromBuiltIn(ModelSpec());
  EXPECT_TRUE(CheckModel(model).ok()) << CheckModel(model);
  EXPECT_EQ(model.ffn_hidden, 512u);
  EXPECT_EQ(model.head_dim, 32u);
  EXPECT_TRUE(model.bias && model.qkv_bias);
  EXPECT_FALSE(model.tied_embeddings);
}

}  // namespace
}  // namespace longhaul::spec
