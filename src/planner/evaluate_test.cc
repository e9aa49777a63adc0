#include "planner/evaluate.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <random>

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

// DualPipe pairs two micro-batches by itself: what of the experts' exchange is exposed does not
// depend on a switch, and is a tenth of what a schedule without overlap waits for.
TEST(Evaluator, DualPipeImpliesTheOverlapOfTheExpertsExchange) {
  spec::Model model = Llama8B();
  model.experts = spec::Experts{.count = 64, .top_k = 4, .ffn_hidden = 2048};
  spec::Training training = Training(16, 1, 4);
  training.layout.expert = 16;
  const double plain = Ask(model, training).breakdown.expert_exposed.count();
  training.software.overlap_expert = true;
  const double overlapped = Ask(model, training).breakdown.expert_exposed.count();
  EXPECT_LT(overlapped, 0.6 * plain);
  training.layout.schedule = spec::PipelineSchedule::kDualPipe;
  const double dual_pipe = Ask(model, training).breakdown.expert_exposed.count();
  EXPECT_NEAR(dual_pipe / plain, 0.1, 0.01);
  training.software.overlap_expert = false;
  EXPECT_EQ(Ask(model, training).breakdown.expert_exposed.count(), dual_pipe);
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

spec::Training RandomTraining(std::mt19937_64& rng) {
  const auto pick = [&](std::initializer_list<uint32_t> from) {
    return *(from.begin() + rng() % from.size());
  };
  spec::Training training = Training(pick({1, 2, 8, 64}), pick({1, 2, 4, 8}), pick({1, 2, 4, 8}));
  training.layout.virtual_pipeline = training.layout.pipeline > 1 ? pick({1, 2, 4}) : 1;
  training.layout.context = pick({1, 2});
  training.layout.zero_stage = training.layout.pipeline > 1 ? pick({0, 1, 2}) : pick({0, 1, 2, 3});
  training.batch.micro = pick({1, 2, 4});
  training.recompute.kind = static_cast<spec::RecomputeKind>(rng() % 3);
  training.software.overlap_tensor = rng() % 2 == 0;
  training.software.overlap_gradient = rng() % 2 == 0;
  training.precision = rng() % 2 == 0 ? spec::Precision::kBf16 : spec::Precision::kFp8;
  return training;
}

TEST(Evaluator, ABetterGpuOrNetworkIsNeverSlower) {
  std::mt19937_64 rng(17);
  for (int i = 0; i < 300; ++i) {
    const spec::Training training = RandomTraining(rng);
    spec::DeviceCluster cluster = Cluster(static_cast<uint32_t>(training.layout.devices()));
    const auto step = [&] {
      return Evaluator(Llama8B(), cluster, training.software).StepSeconds(training);
    };
    const Seconds plain = step();
    SCOPED_TRACE(testing::Message() << "layout " << i);
    ASSERT_GT(plain.count(), 0);
    ASSERT_LT(plain.count(), 1e5);
    cluster.network.per_device = 100_GBps;
    const Seconds network = step();
    ASSERT_LE(network, plain);
    cluster.device.half = cluster.device.half * 1.2;
    cluster.device.fp8 = cluster.device.fp8 * 1.2;
    const Seconds faster = step();
    ASSERT_LT(faster, network);
    cluster.device.memory_bandwidth = cluster.device.memory_bandwidth * 1.2;
    ASSERT_LE(step(), faster);
  }
}

// DualPipe runs the first and the last stage, with its loss, on the same ranks.
TEST(Evaluator, DualPipeFoldsItsStages) {
  spec::Training training = Training(2, 1, 4);
  const Evaluation plain = Ask(Llama8B(), training);
  EXPECT_LT(plain.stages[0].forward, plain.stages[3].forward);
  training.layout.schedule = spec::PipelineSchedule::kDualPipe;
  const Evaluation folded = Ask(Llama8B(), training);
  EXPECT_EQ(folded.stages[0].forward, folded.stages[3].forward);
  EXPECT_NEAR(2 * folded.stages[0].forward.count(),
              plain.stages[0].forward.count() + plain.stages[3].forward.count(), 1e-9);
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
