#include "spec/model/parameters.h"

#include <gtest/gtest.h>

namespace longhaul::spec::parameters_test {
namespace {

Model Llama(uint32_t layers, uint32_t hidden, uint32_t ffn, uint32_t heads) {
  Model model;
  model.layers = layers;
  model.hidden = hidden;
  model.ffn_hidden = ffn;
  model.heads = heads;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.vocabulary = 128'256;
  model.sequence_length = 8'192;
  model.gated_ffn = true;
  model.normalization = Normalization::kRms;
  model.position = Position::kRope;
  return model;
}

Model Mixtral() {
  Model model = Llama(32, 4'096, 0, 32);
  model.vocabulary = 32'000;
  model.experts = Experts{.count = 8, .top_k = 2, .ffn_hidden = 14'336};
  return model;
}

Model DeepSeekV3() {
  Model model = Llama(61, 7'168, 18'432, 128);
  model.kv_heads = 128;
  model.vocabulary = 129'280;
  model.multi_latent = MultiLatent{1'536, 512, 128, 64, 128};
  model.experts = Experts{.count = 256,
                          .top_k = 8,
                          .ffn_hidden = 2'048,
                          .shared = 1,
                          .shared_ffn_hidden = 2'048,
                          .dense_first_layers = 3,
                          .router_bias = true};
  return model;
}

Model Qwen3Moe() {
  Model model = Llama(94, 4'096, 12'288, 64);
  model.kv_heads = 4;
  model.vocabulary = 151'936;
  model.qk_norm = true;
  model.experts = Experts{.count = 128, .top_k = 8, .ffn_hidden = 1'536};
  return model;
}

// A GPT in the convention of Narayanan et al. (SC 2021).
Model Gpt(uint32_t layers, uint32_t hidden, uint32_t heads) {
  Model model;
  model.layers = layers;
  model.hidden = hidden;
  model.ffn_hidden = 4 * hidden;
  model.heads = heads;
  model.kv_heads = heads;
  model.head_dim = hidden / heads;
  model.vocabulary = 51'200;
  model.sequence_length = 2'048;
  model.tied_embeddings = true;
  model.bias = true;
  model.qkv_bias = true;
  return model;
}

// The counts of the published weights: sums of the tensors' sizes.
TEST(Parameters, AreThoseOfPublishedModels) {
  EXPECT_EQ(Parameters(Llama(32, 4'096, 14'336, 32)), 8'030'261'248);
  EXPECT_EQ(Parameters(Llama(80, 8'192, 28'672, 64)), 70'553'706'496);
  EXPECT_EQ(Parameters(Llama(126, 16'384, 53'248, 128)), 405'853'388'800);
  EXPECT_EQ(Parameters(Mixtral()), 46'702'792'704);
  EXPECT_EQ(Parameters(DeepSeekV3()), 671'026'419'200);
  EXPECT_EQ(Parameters(Qwen3Moe()), 235'093'634'560);
}

TEST(Parameters, OfTheBuiltInGptAgreeWithCountsByHand) {
  // Tables 2 * 257 * 128 = 65,792; positions 128 * 128 = 16,384; a layer 12 * 16,384 + 13 * 128 =
  // 198,272, four of them 793,088; last norm 256.
  EXPECT_EQ(Parameters(FromBuiltIn(ModelSpec())), 875'520);
  // GPT-2's published 124,439,808 with the output tied, and its second table of 50,257 * 768.
  Model gpt2 = Gpt(12, 768, 12);
  gpt2.vocabulary = 50'257;
  gpt2.sequence_length = 1'024;
  EXPECT_EQ(Parameters(gpt2), 124'439'808);
  gpt2.tied_embeddings = false;
  EXPECT_EQ(Parameters(gpt2), 124'439'808 + 50'257 * 768);
}

TEST(Parameters, OfThePredictionLayerAreOneLayerAndAJoin) {
  Model model = DeepSeekV3();
  model.multi_token_prediction_layers = 1;
  EXPECT_EQ(Parameters(model) - Parameters(DeepSeekV3()),
            LayerParameters(model, true).total() + int64_t{2} * 7'168 * 7'168 + 3 * 7'168);
}

TEST(ActiveParameters, LeaveOutTheExpertsThatATokenDoesNotMeet) {
  // arXiv 2412.19437 says 37 billion; 37.55 with the embedding.
  EXPECT_NEAR(static_cast<double>(ActiveParameters(DeepSeekV3())), 37.55e9, 0.01e9);
  EXPECT_EQ(ActiveParameters(Mixtral()), 46'702'792'704 - int64_t{32} * 6 * 3 * 4'096 * 14'336);
  EXPECT_EQ(ActiveParameters(Gpt(2, 64, 2)), Parameters(Gpt(2, 64, 2)));
}

// SC 2021, equation 3: 96 B s L h^2 (1 + s / 6h + V / 16 L h).
TEST(FullRecomputeStepFlops, IsEquation3OfSc21) {
  const Model model = Gpt(96, 12'288, 96);
  const double s = 2'048, l = 96, h = 12'288, v = 51'200, b = 1'536;
  const double want = 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  const double got = FullRecomputeStepFlops(model, 1'536, AttentionCount::kFullSquare).count();
  EXPECT_NEAR(got / want, 1, 1e-12);
}

TEST(ModelStepFlops, AgreesWithAStepByHand) {
  // A token forward: 2 * (12 * 4 * 16,384 + 257 * 128) = 1,638,656 and attention 2 * 4 * 128 * 128
  // = 131,072. Three times that for 32 * 128 tokens.
  const Model model = FromBuiltIn(ModelSpec());
  EXPECT_EQ(ModelStepFlops(model, 32).count(), 3.0 * 4'096 * 1'769'728);
  EXPECT_EQ(ModelStepFlops(model, 320).count(), 10 * ModelStepFlops(model, 32).count());
}

TEST(TokenForward, CountsExpertsByWhatATokenMeets) {
  const ForwardFlops flops = TokenForward(Mixtral());
  // By hand: attention 4096 * 128 * 80 = 41,943,040, router 32,768, two experts of 3 * 4096 *
  // 14336.
  EXPECT_EQ(flops.products, 2.0 * 32 * (41'943'040 + 32'768 + 2.0 * 3 * 4'096 * 14'336));
  EXPECT_EQ(flops.output, 2.0 * 4'096 * 32'000);
  EXPECT_EQ(flops.attention, 32.0 * 8'192 * 32 * 256);
}

TEST(TokenForward, CutsAttentionToItsWindow) {
  Model model = Mixtral();
  const double whole = TokenForward(model).attention;
  model.sliding_window = SlidingWindow{4'096, 1};
  // w = s / 2: 2w - w^2 / s = 3/4 s.
  EXPECT_DOUBLE_EQ(TokenForward(model).attention, 0.75 * whole);
  model.sliding_window->every = 2;
  EXPECT_DOUBLE_EQ(TokenForward(model).attention, 0.875 * whole);
  model.sliding_window->size = 8'192;
  EXPECT_DOUBLE_EQ(TokenForward(model).attention, whole);
}

}  // namespace
}  // namespace longhaul::spec::parameters_test
