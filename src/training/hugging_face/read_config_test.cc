#include "training/hugging_face/read_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "io/files/file.h"
#include "training/hugging_face/testing.h"

namespace longhaul::training::read_config_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing_support::kAllFamilies;
using testing_support::TinyConfig;

json With(Family family, const std::string& key, const json& value) {
  json config = TinyConfig(family);
  config[key] = value;
  return config;
}

ModelConfig Read(const json& config) {
  const Result<ModelConfig> read = ReadModelConfig(config.dump(), "config.json");
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? *read : ModelConfig();
}

std::string Refusal(const json& config) {
  const Result<ModelConfig> read = ReadModelConfig(config.dump(), "config.json");
  EXPECT_FALSE(read.ok()) << config;
  return read.ok() ? "" : read.status().message();
}

TEST(ReadConfig, ReadsEachFamily) {
  for (const Family family : kAllFamilies) {
    const auto read = ReadConfig(TinyConfig(family).dump(), "config.json");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->family, family);
    EXPECT_EQ(read->text, TinyConfig(family).dump());
    EXPECT_EQ(read->model.shape.layers, 2u);
    EXPECT_EQ(read->model.shape.experts.has_value(),
              family == Family::kMixtral || family == Family::kQwen3Moe);
  }
}

TEST(ReadConfig, HasTheDefaultsOfTransformers) {
  EXPECT_EQ(Read(TinyConfig(Family::kLlama)).norm_epsilon, 1e-6);
  EXPECT_EQ(Read(TinyConfig(Family::kGpt2)).norm_epsilon, 1e-5);
  EXPECT_EQ(Read(TinyConfig(Family::kMixtral)).norm_epsilon, 1e-5);
  EXPECT_EQ(Read(TinyConfig(Family::kMixtral)).rope_theta, 1e6);
  EXPECT_EQ(Read(TinyConfig(Family::kQwen3)).rope_theta, 1e4);
  EXPECT_EQ(Read(TinyConfig(Family::kQwen3)).initial_deviation, 0.02);
  EXPECT_TRUE(Read(TinyConfig(Family::kMixtral)).normalised_routing);
  EXPECT_FALSE(Read(TinyConfig(Family::kQwen3Moe)).normalised_routing);
  EXPECT_EQ(Read(TinyConfig(Family::kQwen3Moe)).balance_loss, 0.001);
  EXPECT_EQ(Read(TinyConfig(Family::kLlama)).balance_loss, 0);
}

TEST(ReadConfig, ReadsTheNumbersBesideTheShape) {
  EXPECT_EQ(Read(With(Family::kLlama, "rms_norm_eps", 1e-5)).norm_epsilon, 1e-5);
  EXPECT_EQ(Read(With(Family::kGpt2, "layer_norm_epsilon", 1e-6)).norm_epsilon, 1e-6);
  EXPECT_EQ(Read(With(Family::kLlama, "rope_theta", 500'000)).rope_theta, 5e5);
  EXPECT_EQ(Read(With(Family::kLlama, "initializer_range", 0.01)).initial_deviation, 0.01);
  EXPECT_TRUE(Read(With(Family::kQwen3Moe, "norm_topk_prob", true)).normalised_routing);
  EXPECT_EQ(Read(With(Family::kMixtral, "router_aux_loss_coef", 0)).balance_loss, 0);
  EXPECT_FALSE(Read(With(Family::kGpt2, "activation_function", "gelu_new")).exact_gelu);
  EXPECT_FALSE(Read(With(Family::kLlama, "hidden_act", "gelu_pytorch_tanh")).exact_gelu);
  EXPECT_TRUE(Read(With(Family::kLlama, "hidden_act", "gelu")).exact_gelu);
  EXPECT_TRUE(Read(With(Family::kLlama, "tie_word_embeddings", true)).shape.tied_embeddings);
}

TEST(ReadConfig, ReadsTheKeysOfTransformers5) {
  const json rope = {{"rope_type", "default"}, {"rope_theta", 123'456.0}};
  EXPECT_EQ(Read(With(Family::kLlama, "rope_parameters", rope)).rope_theta, 123'456);
  EXPECT_EQ(Read(With(Family::kLlama, "rope_scaling", {{"type", "default"}})).rope_theta, 1e4);
  EXPECT_EQ(Read(With(Family::kLlama, "rope_scaling", nullptr)).rope_theta, 1e4);
  json renamed = TinyConfig(Family::kQwen3Moe);
  renamed["num_local_experts"] = renamed["num_experts"];
  renamed.erase("num_experts");
  EXPECT_EQ(Read(renamed).shape.experts->count, 4u);
  renamed["num_experts"] = 8;
  EXPECT_THAT(Refusal(renamed), HasSubstr("num_experts: is 8, but num_local_experts is 4"));
}

TEST(ReadConfig, RefusesUnknownFamiliesWithTheKnownOnes) {
  EXPECT_THAT(Refusal(With(Family::kLlama, "model_type", "lama")),
              HasSubstr("config.json: model_type: the family 'lama' is not known, did you mean "
                        "'llama'; the training engine has gpt2, llama, mistral"));
  EXPECT_THAT(Refusal(With(Family::kLlama, "model_type", "qwen2_moe")),
              HasSubstr("model_type: 'qwen2_moe' has the gate of a shared expert, which the "
                        "training engine does not compute"));
  EXPECT_THAT(Refusal(With(Family::kLlama, "model_type", 3)), HasSubstr("must be a text"));
  json none = TinyConfig(Family::kLlama);
  none.erase("model_type");
  EXPECT_THAT(Refusal(none), HasSubstr("config.json: model_type: is missing"));
}

TEST(ReadConfig, RefusesWhatIsNoJsonObject) {
  for (const std::string text : {"", "[]", "layers: 2", "{\"model_type\": \"llama\"", "3"}) {
    const auto read = ReadModelConfig(text, "config.json");
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(read.status().message(), HasSubstr("config.json: is not an object in JSON"))
        << text;
  }
  EXPECT_THAT(ReadModelConfig(std::string(2 << 20, ' '), "config.json").status().message(),
              HasSubstr("has 2097152 bytes, expected at most 1048576"));
}

TEST(ReadConfig, RefusesMissingAndContradictingSizes) {
  json missing = TinyConfig(Family::kLlama);
  missing.erase("hidden_size");
  EXPECT_THAT(Refusal(missing), HasSubstr("config.json: hidden_size: is missing"));
  EXPECT_THAT(Refusal(With(Family::kLlama, "num_hidden_layers", "2")),
              HasSubstr("num_hidden_layers: must be a whole number"));
  EXPECT_THAT(Refusal(With(Family::kLlama, "num_key_value_heads", 3)),
              HasSubstr("kv_heads: 3 does not divide the 4 heads"));
  EXPECT_THAT(Refusal(With(Family::kGpt2, "n_embd", 10)),
              HasSubstr("config.json: n_head: is 4, which does not divide n_embd (10)"));
  EXPECT_THAT(Refusal(With(Family::kLlama, "hidden_size", 10)),
              HasSubstr("num_attention_heads: is 4, which does not divide hidden_size (10): give a "
                        "divisor or head_dim"));
  EXPECT_THAT(Refusal(With(Family::kMixtral, "num_experts_per_tok", 5)),
              HasSubstr("a token visits 5 of 4 experts"));
  EXPECT_THAT(Refusal(With(Family::kLlama, "head_dim", 3)), HasSubstr("an odd head_dim (3)"));
}

struct Refused {
  Family family;
  std::string key;
  json value;
  std::string message;
};

TEST(ReadConfig, RefusesWhatTheEngineDoesNotCompute) {
  const std::vector<Refused> cases = {
      {Family::kLlama,
       "rope_scaling",
       {{"rope_type", "llama3"}, {"factor", 8.0}},
       "rope_scaling.rope_type: is \"llama3\"; the training engine computes \"default\" only"},
      {Family::kLlama,
       "rope_parameters",
       {{"rope_type", "yarn"}},
       "rope_parameters.rope_type: is \"yarn\""},
      {Family::kLlama,
       "rope_parameters",
       {{"rope_type", "default"}, {"factor", 2}},
       "rope_parameters.factor: is 2; the training engine does not compute it"},
      {Family::kLlama, "rope_scaling", "linear", "rope_scaling: is \"linear\"; give a map"},
      {Family::kLlama, "partial_rotary_factor", 0.5, "partial_rotary_factor: is 0.5"},
      {Family::kLlama, "attention_dropout", 0.1,
       "attention_dropout: is 0.1; the training engine does not compute dropout: set it to 0"},
      {Family::kLlama, "attention_bias", true, "attention_bias: is true, but mlp_bias is false"},
      {Family::kQwen3, "attention_bias", true, "attention_bias: is true; the training engine has"},
      {Family::kLlama, "hidden_act", "gelu_10", "hidden_act: is \"gelu_10\"; the training engine"},
      {Family::kLlama, "quantization_config", {{"bits", 4}}, "quantization_config: is given"},
      {Family::kMistral, "sliding_window", 8, "sliding_window: is 8, but the training engine"},
      {Family::kQwen2,
       "layer_types",
       {"full_attention", "sliding_attention"},
       "layer_types: is [\"full_attention\",\"sliding_attention\"]"},
      {Family::kMixtral, "router_jitter_noise", 0.1, "router_jitter_noise: is 0.1"},
      {Family::kMixtral, "router_aux_loss_coef", -1, "router_aux_loss_coef: is -1; give a number"},
      {Family::kLlama, "rms_norm_eps", 0, "rms_norm_eps: is 0; give a number above 0"},
      {Family::kLlama, "rope_theta", "many", "rope_theta: is \"many\"; give a number above 0"},
      {Family::kQwen3Moe, "norm_topk_prob", 1, "norm_topk_prob: is 1; give true or false"},
      {Family::kGpt2, "scale_attn_by_inverse_layer_idx", true,
       "scale_attn_by_inverse_layer_idx: is true; the training engine does not scale"},
      {Family::kGpt2, "scale_attn_weights", false, "scale_attn_weights: is false"},
      {Family::kGpt2, "add_cross_attention", true, "add_cross_attention: is true"},
      {Family::kGpt2, "attn_pdrop", 0.1, "attn_pdrop: is 0.1; the training engine does not"},
  };
  for (const Refused& one : cases) {
    EXPECT_THAT(Refusal(With(one.family, one.key, one.value)),
                HasSubstr("config.json: " + one.message));
  }
  json gpt2 = TinyConfig(Family::kGpt2);
  gpt2.erase("embd_pdrop");
  EXPECT_THAT(Refusal(gpt2), HasSubstr("embd_pdrop: is absent, which means 0.1; the training "
                                       "engine does not compute dropout: set it to 0"));
  json experts = With(Family::kQwen3Moe, "mlp_only_layers", {0});
  experts["decoder_sparse_step"] = 2;
  EXPECT_THAT(Refusal(experts), HasSubstr("mlp_only_layers: is not empty"));
}

TEST(ReadConfig, RefusesTwoValuesOfOneNumber) {
  json config = With(Family::kLlama, "rope_theta", 10'000);
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 20'000.0}};
  EXPECT_THAT(Refusal(config), HasSubstr("rope_parameters.rope_theta: is 20000.0; rope_theta has "
                                         "another value: remove one"));
  config["rope_parameters"]["rope_theta"] = 10'000.0;
  EXPECT_EQ(Read(config).rope_theta, 1e4);
}

TEST(ReadConfig, NamesAllMistakesAtOnce) {
  json config = With(Family::kGpt2, "attn_pdrop", 0.1);
  config["resid_pdrop"] = 0.2;
  EXPECT_THAT(Refusal(config), testing::AllOf(HasSubstr("attn_pdrop"), HasSubstr("resid_pdrop")));
}

TEST(ReadConfig, ReadsTheFileOfAFolder) {
  const TemporaryFolder folder("/tmp");
  EXPECT_THAT(ReadFolderConfig(folder.path()).status().message(), HasSubstr("/config.json"));
  ASSERT_TRUE(io::WriteTextAtomically(io::PosixFileSystem(), folder.path() + "/config.json",
                                      TinyConfig(Family::kQwen2).dump())
                  .ok());
  const auto read = ReadFolderConfig(folder.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->family, Family::kQwen2);
}

}  // namespace
}  // namespace longhaul::training::read_config_test
