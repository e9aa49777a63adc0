#include "planner/time/software_stack.h"

#include <gtest/gtest.h>

#include "planner/evaluate.h"

namespace longhaul::planner {
namespace {

using namespace longhaul::literals;

spec::Model Experts() {
  spec::Model model;
  model.name = "experts";
  model.layers = 48;
  model.hidden = 2048;
  model.heads = 32;
  model.kv_heads = 4;
  model.head_dim = 128;
  model.vocabulary = 151'936;
  model.sequence_length = 4096;
  model.gated_ffn = true;
  model.activation = spec::Activation::kSilu;
  model.normalization = spec::Normalization::kRms;
  model.position = spec::Position::kRope;
  model.experts = spec::Experts{};
  model.experts->count = 128;
  model.experts->top_k = 8;
  model.experts->ffn_hidden = 768;
  model.experts->balanced = true;
  return model;
}

spec::Model Dense() {
  spec::Model model = Experts();
  model.experts.reset();
  model.ffn_hidden = 8192;
  return model;
}

struct Published {
  std::string device = "gb200-nvl72";
  std::string release = "26.04";
  uint32_t micro = 4;
  uint32_t shard_group = 0;
  double network_gb_per_s = 50;
};

Seconds StepOf(const spec::Model& model, const Published& run) {
  spec::DeviceCluster cluster;
  cluster.device = *spec::FindDevice(run.device);
  cluster.devices = run.shard_group > 0 ? 32 : 8;
  cluster.devices_per_node = 8;
  cluster.island = 8;
  cluster.network.per_device = BytesPerSecond(run.network_gb_per_s * 1e9);
  spec::Training training;
  training.layout.data = cluster.devices;
  training.layout.expert = model.experts ? 8 : 1;
  training.layout.zero_stage = run.shard_group > 0 ? 3 : 1;
  training.layout.shard_group = run.shard_group;
  training.batch = {cluster.devices * 16, run.micro};
  training.precision = spec::Precision::kMxfp8;
  training.software.framework = run.shard_group > 0 ? "fsdp" : "megatron-bridge";
  training.software.release = run.release;
  return Evaluator(model, cluster, training.software).StepSeconds(training);
}

// The same configuration became 1.5 times faster on racks from 26.04 to 26.06 and not at all on
// H100 (Megatron Bridge's summaries); dense models did not change.
TEST(Release, FusesExpertsOnBlackwellAlone) {
  Published before, after;
  after.release = "26.06";
  EXPECT_LT(StepOf(Experts(), after), 0.85 * StepOf(Experts(), before));
  EXPECT_EQ(StepOf(Dense(), after), StepOf(Dense(), before));
  before.device = after.device = "h100-sxm";
  EXPECT_EQ(StepOf(Experts(), after), StepOf(Experts(), before));
}

TEST(Release, IsReadAsYearAndMonthWhereverItStands) {
  Published plain, tagged;
  plain.release = "25.11";
  tagged.release = "v25.11.02";
  EXPECT_EQ(StepOf(Experts(), plain), StepOf(Experts(), tagged));
  plain.release = "r0.14";  // no date: as the middle of those known
  tagged.release = "26.04";
  EXPECT_EQ(StepOf(Experts(), plain), StepOf(Experts(), tagged));
}

// With one sequence the host decides: twice the tokens a micro-batch cost less than half more.
TEST(Experts, WaitForTheHostInSmallMicroBatches) {
  Published small, large;
  small.device = large.device = "b200-sxm";
  small.micro = 1;
  large.micro = 2;
  EXPECT_GT(StepOf(Experts(), small), 1.4 * StepOf(Experts(), large));
  spec::Model capacity = Experts();
  capacity.experts->capacity_factor = 1;  // counts are known beforehand
  EXPECT_LT(StepOf(capacity, small), 0.75 * StepOf(Experts(), small));
}

// HybridEP sends a token to a rank once; NCCL's all-to-all sends a copy for each of eight experts.
TEST(Dispatch, MergesCopiesOnRacksFirst) {
  SoftwareStack stack = StackFor("megatron-bridge", "25.11");
  DeviceMatrix matrix;
  FitToGpu(Experts(), *spec::FindDevice("gb200-nvl72"), stack, matrix);
  EXPECT_TRUE(stack.merges_copies);
  stack = StackFor("megatron-bridge", "25.11");
  FitToGpu(Experts(), *spec::FindDevice("b200-sxm"), stack, matrix);
  EXPECT_FALSE(stack.merges_copies);
  EXPECT_FALSE(StackFor("megatron-core", "r0.14").merges_copies);
  EXPECT_TRUE(StackFor("nemo-automodel", "2025-10").merges_copies);
}

// Each launch loses part of a wave: many experts of few rows cost more than few of many.
TEST(Dispatch, LosesPartOfAWaveForEachExpertBeforeBlackwell) {
  const DeviceMatrix h100 = ShippedMatrix(*spec::FindDevice("h100-sxm"));
  spec::Operator op;
  op.kind = spec::OperatorKind::kMatmul;
  op.part = spec::OperatorPart::kExperts;
  op.n = 4096;
  op.k = 4096;
  op.parameters = 1;
  op.groups = 2;
  op.m = 8192;
  const double few = TimeOf(h100, op, spec::Precision::kBf16).forward;
  op.groups = 16;
  op.m = 1024;
  const double many = TimeOf(h100, op, spec::Precision::kBf16).forward;
  EXPECT_GT(many, 1.3 * few);
  EXPECT_LT(many, 2.5 * few);
}

// Copies of the shards sum their gradients over the network, which grows dearer as that slows.
TEST(HybridSharding, PaysForTheSumOverCopies) {
  Published fast, slow;
  fast.device = slow.device = "h100-sxm";
  fast.shard_group = slow.shard_group = 8;
  slow.network_gb_per_s = 0.5;
  EXPECT_GT(StepOf(Dense(), slow), 1.1 * StepOf(Dense(), fast));
}

TEST(UsesApexOptimizer, BelongsToTheOldLauncher) {
  spec::Software software;
  software.framework = "nemo";
  software.release = "v24.11.1";
  EXPECT_TRUE(UsesApexOptimizer(software));
  software.release = "v25.04.02";
  EXPECT_FALSE(UsesApexOptimizer(software));
  software.framework = "nemo-automodel";
  software.release = "2024-11";
  EXPECT_FALSE(UsesApexOptimizer(software));
}

TEST(SplitsExperts, BelongsToEarlyReleasesOfOneFramework) {
  spec::Software software;
  software.framework = "nemo";
  software.release = "v25.02.02";
  EXPECT_TRUE(SplitsExperts(software));
  software.release = "v25.05.05";
  EXPECT_FALSE(SplitsExperts(software));
  software.release = "";
  EXPECT_FALSE(SplitsExperts(software));
  software.framework = "megatron-core";
  software.release = "25.02";
  EXPECT_FALSE(SplitsExperts(software));
}

}  // namespace
}  // namespace longhaul::planner
