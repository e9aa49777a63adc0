#include "planner/evaluate.h"

#include <gtest/gtest.h>

namespace longhaul::planner {
namespace {

using namespace longhaul::literals;

spec::DeviceCluster Cluster(uint32_t devices) {
  spec::DeviceCluster cluster;
  cluster.device = *spec::FindDevice("h100-sxm");
  cluster.devices = devices;
  cluster.network.per_device = 50_GBps;
  return cluster;
}

spec::Model Llama8B() {
  spec::Model model;
  model.name = "llama-3-8b";
  model.layers = 32;
  model.hidden = 4096;
  model.ffn_hidden = 14336;
  model.heads = 32;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.vocabulary = 128256;
  model.sequence_length = 8192;
  model.gated_ffn = true;
  model.activation = spec::Activation::kSilu;
  model.normalization = spec::Normalization::kRms;
  model.position = spec::Position::kRope;
  return model;
}

spec::Training Training(uint32_t data, uint32_t tensor, uint32_t pipeline) {
  spec::Training training;
  training.layout.data = data;
  training.layout.tensor = tensor;
  training.layout.pipeline = pipeline;
  training.layout.sequence_parallel = tensor > 1;
  training.layout.zero_stage = 1;
  training.batch = {data * 16, 1};
  training.software.framework = "megatron-core";
  return training;
}

Evaluation Ask(const spec::Model& model, const spec::Training& training) {
  const spec::DeviceCluster cluster = Cluster(static_cast<uint32_t>(training.layout.devices()));
  return Evaluator(model, cluster, training.software).Evaluate(training);
}

TEST(Evaluator, BreakdownSumsToTheStep) {
  for (const auto& training : {Training(8, 1, 1), Training(2, 2, 2), Training(1, 8, 4)}) {
    const Evaluation e = Ask(Llama8B(), training);
    EXPECT_NEAR(e.step.count(), e.breakdown.total().count(), 1e-12);
  }
}

TEST(Evaluator, TheModelsNameChangesNothing) {
  spec::Model renamed = Llama8B();
  renamed.name = "something else";
  EXPECT_EQ(Ask(Llama8B(), Training(8, 2, 2)).step, Ask(renamed, Training(8, 2, 2)).step);
}

// 6 x 8.03e9 parameters less the embedding's lookup, and the causal half of attention: worked from
// the table of the model's shapes, 3 x (2 x 7.504e9 + 32 layers x 8192 x 32 heads x 256).
TEST(Evaluator, ModelFlopsAreThreeForwards) {
  const Evaluation e = Ask(Llama8B(), Training(8, 1, 1));
  const double tokens = 128.0 * 8192;
  EXPECT_NEAR(e.model_flops.count() / tokens, 3 * (2 * 7.504e9 + 32.0 * 8192 * 32 * 256), 3e8);
}

TEST(Evaluator, FullRecomputeAddsAForwardToHardwareFlopsOnly) {
  spec::Training training = Training(8, 1, 1);
  const Evaluation plain = Ask(Llama8B(), training);
  training.recompute.kind = spec::RecomputeKind::kFull;
  const Evaluation full = Ask(Llama8B(), training);
  EXPECT_EQ(plain.model_flops, full.model_flops);
  EXPECT_GT(full.step.count(), 1.2 * plain.step.count());
  EXPECT_LT(full.step.count(), 1.4 * plain.step.count());
  EXPECT_GT(full.hardware_flops.count(), 1.25 * full.model_flops.count());
}

TEST(Evaluator, NeverExceedsThePeak) {
  for (const uint32_t tensor : {1u, 2u, 4u, 8u}) {
    const Evaluation e = Ask(Llama8B(), Training(8, tensor, 1));
    EXPECT_GT(e.hardware_flops_utilization, 0.1) << tensor;
    EXPECT_LT(e.hardware_flops_utilization, 0.8) << tensor;
  }
}

}  // namespace
}  // namespace longhaul::planner
