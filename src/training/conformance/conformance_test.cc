// A subset of the conformance run: every dimension alone, and pairs.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "training/conformance/compare.h"

namespace longhaul::training::conformance_test {
namespace {

Exercise Dense() {
  Exercise exercise;
  spec::Model& shape = exercise.config.shape;
  shape.layers = 3;
  shape.hidden = 32;
  shape.ffn_hidden = 48;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 8;
  shape.vocabulary = 63;
  shape.sequence_length = 16;
  shape.gated_ffn = true;
  shape.activation = spec::Activation::kSilu;
  shape.normalization = spec::Normalization::kRms;
  shape.position = spec::Position::kRope;
  exercise.options.global_batch = 8;
  exercise.options.rate = 3e-3;
  exercise.options.decay = 0.1;
  exercise.options.clip = 1;
  exercise.options.type = at::kDouble;
  exercise.steps = 5;
  exercise.ragged = true;
  return exercise;
}

// GPT-2: learned positions, layer norms with biases, one matrix for both ends.
Exercise Gpt2() {
  Exercise exercise = Dense();
  spec::Model& shape = exercise.config.shape;
  shape.kv_heads = 4;
  shape.gated_ffn = false;
  shape.activation = spec::Activation::kGelu;
  shape.normalization = spec::Normalization::kLayer;
  shape.position = spec::Position::kLearned;
  shape.tied_embeddings = true;
  shape.bias = shape.qkv_bias = true;
  return exercise;
}

Exercise Mixture() {
  Exercise exercise = Dense();
  spec::Model& shape = exercise.config.shape;
  shape.qk_norm = true;
  shape.experts = spec::Experts{.count = 4,
                                .top_k = 2,
                                .ffn_hidden = 24,
                                .shared = 1,
                                .shared_ffn_hidden = 24,
                                .dense_first_layers = 1};
  exercise.config.balance_loss = 0.02;
  return exercise;
}

void ExpectEqual(const Exercise& exercise, const std::vector<std::string>& layouts) {
  at::set_num_threads(1);
  const Expected expected = RunReference(exercise);
  for (const std::string& text : layouts) {
    const Result<Layout> layout = ParseLayout(text);
    ASSERT_TRUE(layout.ok()) << layout.status();
    const Comparison comparison = CompareLayouts(exercise, expected, {*layout});
    EXPECT_EQ(comparison.failure, "") << text;
    std::printf("%-40s loss %.1e norm %.1e gradients %.1e weights %.1e\n", text.c_str(),
                comparison.loss, comparison.norm, comparison.gradients, comparison.weights);
  }
}

TEST(Conformance, DenseLayouts) {
  ExpectEqual(Dense(), {"dp1", "mb4", "recompute", "dp2", "dp4 zero1", "dp2 zero2 mb2", "dp2 zero3",
                        "tp2", "tp4", "tp2 sp", "cp2", "cp4", "pp3 mb4", "pp2 zero-bubble mb4",
                        "tp2 sp cp2 dp2 zero3"});
}

TEST(Conformance, TiedEmbeddingsLearnedPositionsAndBiases) {
  ExpectEqual(Gpt2(), {"dp1", "dp2 zero3 mb2", "tp2 sp", "cp2 tp2", "pp2 zero2 mb4 dp2",
                       "pp3 tp2 sp zero1 dp1 mb8 recompute"});
}

TEST(Conformance, Experts) {
  ExpectEqual(Mixture(),
              {"dp1", "dp2 ep2", "dp4 ep4 zero3", "dp4 ep2 zero1", "dp2 tp2 ep2",
               "dp2 tp2 sp ep2 mb2", "cp2 dp2 ep2", "pp3 dp2 ep2 mb4 recompute", "tp4 sp cp2"});
}

TEST(Conformance, GradientDescentWithoutClipping) {
  Exercise exercise = Mixture();
  exercise.options.rule.kind = RuleKind::kGradientDescent;
  exercise.options.rate = 0.1;
  exercise.options.clip = 0;
  ExpectEqual(exercise, {"dp4 ep2 mb2 zero2", "tp2 sp cp2 pp2 mb4"});
}

TEST(Conformance, InterleavedStages) {
  Exercise exercise = Dense();
  exercise.config.shape.layers = 5;
  ExpectEqual(exercise, {"pp2x2 interleaved mb4", "pp2x2 interleaved mb8 tp2 sp zero3"});
}

TEST(Conformance, RanksAreProcessesOverGloo) {
  at::set_num_threads(1);
  const Exercise exercise = Mixture();
  const Expected expected = RunReference(exercise);
  for (const char* text : {"dp2 tp2 ep2 zero2 mb2", "pp3 mb4", "cp2 tp2 sp zero3"}) {
    const Comparison comparison = CompareProcesses(exercise, expected, {*ParseLayout(text)});
    EXPECT_EQ(comparison.failure, "") << text;
  }
}

// In f32, where each order of a sum has other bits.
TEST(Conformance, BitwiseModeHasTheSameBitsInAllItsLayouts) {
  at::set_num_threads(1);
  for (Exercise exercise : {Dense(), Gpt2(), Mixture()}) {
    exercise.options.type = at::kFloat;
    exercise.options.bitwise = true;
    exercise.steps = 6;
    const Expected expected = RunReference(exercise);
    const auto hash = [&](const std::vector<std::string>& texts) {
      std::vector<Layout> layouts;
      for (const std::string& text : texts) layouts.push_back(*ParseLayout(text));
      WholeWeights weights;
      const Comparison comparison = CompareLayouts(exercise, expected, layouts, &weights);
      EXPECT_EQ(comparison.failure, "") << texts[0];
      return HashOf(weights);
    };
    const uint64_t one = hash({"dp1"});
    for (const char* text : {"mb4", "recompute", "dp2", "dp4 zero1", "dp2 zero2 mb2", "dp8 zero3",
                             "pp3 mb8", "pp2 zero-bubble mb4", "dp2 pp2 zero3 mb2 recompute"}) {
      EXPECT_EQ(hash({text}), one) << text;
    }
    EXPECT_EQ(hash({"dp2 zero3", "pp3 mb2", "dp4 zero1"}), one) << "resumed in other layouts";
  }
}

TEST(Conformance, KilledProcessesResumeInAnotherLayoutWithTheSameBits) {
  at::set_num_threads(1);
  Exercise exercise = Gpt2();
  exercise.options.type = at::kFloat;
  exercise.options.bitwise = true;
  exercise.steps = 6;
  const Expected expected = RunReference(exercise);
  const auto hash = [&](const std::vector<Layout>& layouts) {
    WholeWeights weights;
    const Comparison comparison = CompareProcesses(exercise, expected, layouts, &weights);
    EXPECT_EQ(comparison.failure, "");
    return HashOf(weights);
  };
  EXPECT_EQ(hash({*ParseLayout("dp4 zero2"), *ParseLayout("pp3 mb2")}), hash({Layout()}));
}

TEST(Conformance, BitwiseModeRefusesOtherLayouts) {
  Exercise exercise = Dense();
  exercise.options.bitwise = true;
  exercise.steps = 1;
  const Expected expected = RunReference(exercise);
  const auto why = [&](const char* text) {
    return CompareLayouts(exercise, expected, {*ParseLayout(text)}).failure;
  };
  EXPECT_EQ(
      why("tp2 sp"),
      "bitwise mode: layout 'tp2 sp' divides tensors, sequences or experts, which changes the "
      "bits");
  exercise.options.global_batch = 6;
  EXPECT_EQ(why("dp2"), "bitwise mode: 3 sequences of a replica are not a power of two");
}

// Weights and moments go from one layout to the next.
TEST(Conformance, TrainingResumesInOtherLayouts) {
  at::set_num_threads(1);
  Exercise exercise = Mixture();
  exercise.steps = 6;
  const Expected expected = RunReference(exercise);
  std::vector<Layout> layouts;
  for (const char* text : {"dp2 ep2 zero3", "pp3 tp2 sp mb4", "cp2 dp2 zero1"}) {
    layouts.push_back(*ParseLayout(text));
  }
  EXPECT_EQ(CompareLayouts(exercise, expected, layouts).failure, "");
}

}  // namespace
}  // namespace longhaul::training::conformance_test
