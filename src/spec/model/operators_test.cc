#include "spec/model/operators.h"

#include <gtest/gtest.h>

#include "spec/model/parameters.h"

namespace longhaul::spec::operators_test {
namespace {

Model Llama8B() {
  Model model;
  model.layers = 32;
  model.hidden = 4096;
  model.ffn_hidden = 14336;
  model.heads = 32;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.vocabulary = 128256;
  model.sequence_length = 8192;
  model.gated_ffn = true;
  model.activation = Activation::kSilu;
  model.normalization = Normalization::kRms;
  model.position = Position::kRope;
  return model;
}

Model DeepSeekV3() {
  Model model = Llama8B();
  model.layers = 61;
  model.hidden = 7168;
  model.ffn_hidden = 18432;
  model.heads = 128;
  model.kv_heads = 128;
  model.vocabulary = 129280;
  model.sequence_length = 4096;
  model.multi_latent = MultiLatent{1536, 512, 128, 64, 128};
  Experts experts;
  experts.count = 256;
  experts.top_k = 8;
  experts.ffn_hidden = 2048;
  experts.shared = 1;
  experts.shared_ffn_hidden = 2048;
  experts.dense_first_layers = 3;
  experts.balanced = true;
  model.experts = experts;
  return model;
}

double Sum(const OperatorList& list, double Operator::*member) {
  double sum = 0;
  for (const Operator& op : list) sum += op.*member;
  return sum;
}

// The list's weights are the exact counts of spec/model/parameters.h, layer by layer.
TEST(Operators, HoldTheLayersParameters) {
  for (const Model& model : {Llama8B(), DeepSeekV3()}) {
    for (const bool experts : {false, true}) {
      if (experts && !model.experts) continue;
      const OperatorList list = LayerOperators(model, {experts, false}, {});
      EXPECT_EQ(Sum(list, &Operator::parameters),
                static_cast<double>(LayerParameters(model, experts).total()));
    }
  }
}

TEST(Operators, CountTheModelsForwardFlops) {
  for (const Model& model : {Llama8B(), DeepSeekV3()}) {
    double flops = Sum(LossOperators(model, {}), &Operator::model_flops);
    for (uint32_t i = 0; i < model.layers; ++i) {
      flops +=
          Sum(LayerOperators(model, {model.has_experts(i), false}, {}), &Operator::model_flops);
    }
    // The output layer is padded to a multiple of 128.
    EXPECT_NEAR(flops / model.sequence_length / TokenForward(model).total(), 1, 1e-3);
  }
}

TEST(Operators, TensorRanksShareTheWork) {
  const Model model = Llama8B();
  const double whole = Sum(LayerOperators(model, {}, {}), &Operator::forward_flops);
  LayerSlice slice;
  slice.tensor = 4;
  EXPECT_DOUBLE_EQ(Sum(LayerOperators(model, {}, slice), &Operator::forward_flops), whole / 4);
  slice.sequence_parallel = true;
  slice.context = 2;
  EXPECT_DOUBLE_EQ(Sum(LayerOperators(model, {}, slice), &Operator::forward_flops), whole / 8);
}

TEST(Operators, ExpertRanksShareExpertsButNotTheirTokens) {
  const Model model = DeepSeekV3();
  LayerSlice slice;
  slice.expert = 32;
  const OperatorList list = LayerOperators(model, {true, false}, slice);
  for (const Operator& op : list) {
    if (op.name != "experts.in") continue;
    EXPECT_EQ(op.groups, 8);                // of 256 on 32 ranks
    EXPECT_EQ(op.m * op.groups, 4096 * 8);  // each token eight times, whatever the ranks
    EXPECT_EQ(op.parameters, 8.0 * 2 * 2048 * 7168);
    return;
  }
  FAIL() << "no expert product";
}

// Every second layer of a window of 128 attends to 128 - 128^2 / 2s keys on average.
TEST(Operators, AWindowCutsAttentionAlone) {
  Model model = Llama8B();
  model.sliding_window = SlidingWindow{128, 2};
  const OperatorList full = LayerOperators(model, {false, false}, {});
  const OperatorList window = LayerOperators(model, {false, true}, {});
  const double less = Sum(full, &Operator::forward_flops) - Sum(window, &Operator::forward_flops);
  const double keys = 8192.0 / 2 - (128 - 128.0 * 128 / (2 * 8192));
  EXPECT_DOUBLE_EQ(less, 4.0 * 8192 * keys * 32 * 128);
}

TEST(Operators, PadTheVocabularyAsMegatronDoes) {
  EXPECT_EQ(PaddedVocabulary(50257, 1), 50304u);
  EXPECT_EQ(PaddedVocabulary(50257, 8), 51200u);
  EXPECT_EQ(PaddedVocabulary(128256, 8), 129024u);
}

Model Gpt() {
  ModelSpec built_in;  // 4 layers of 128, sequence 128, 257 words
  return FromBuiltIn(built_in);
}

TEST(LayerOperators, EveryStreamHasItsRowsAndWidth) {
  LayerSlice slice;
  slice.micro_batch = 8;
  for (const Operator& op : LayerOperators(Gpt(), {}, slice)) {
    if (op.kind != OperatorKind::kMemoryBound) continue;
    EXPECT_EQ(op.m, 8 * 128) << op.name;
    EXPECT_EQ(op.n, op.name == "ffn.activation" ? 512 : 128) << op.name;
  }
}

TEST(LayerOperators, SoftmaxHasARowForEachQueryOfEachHead) {
  LayerSlice slice;
  slice.micro_batch = 8;
  slice.flash_attention = false;
  bool found = false;
  for (const Operator& op : LayerOperators(Gpt(), {}, slice)) {
    if (op.name != "attention.softmax") continue;
    found = true;
    EXPECT_EQ(op.m, 8 * 4 * 128);
    EXPECT_EQ(op.n, 128);
  }
  EXPECT_TRUE(found);
}

TEST(LossOperators, PadTheVocabularyToTheMultipleAskedFor) {
  LayerSlice slice;
  const auto outputs = [&] {
    for (const Operator& op : LossOperators(Gpt(), slice)) {
      if (op.name == "output") return op.n;
    }
    return 0.0;
  };
  EXPECT_EQ(outputs(), 384);
  slice.vocabulary_multiple = 1;
  EXPECT_EQ(outputs(), 257);
}

}  // namespace
}  // namespace longhaul::spec::operators_test
