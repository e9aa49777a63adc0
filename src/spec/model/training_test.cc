#include "spec/model/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::spec::training_test {
namespace {

using testing::HasSubstr;

Model SmallModel() {
  Model model;
  model.layers = 24;
  model.hidden = 2048;
  model.ffn_hidden = 8192;
  model.heads = 16;
  model.kv_heads = 4;
  model.head_dim = 128;
  model.vocabulary = 50257;
  model.sequence_length = 4096;
  return model;
}

DeviceCluster Cluster() {
  DeviceCluster cluster;
  cluster.device = *FindDevice("a100-80gb-sxm");
  cluster.devices = 64;
  cluster.network.per_device = BytesPerSecond(25e9);
  return cluster;
}

Training Valid() {
  Training training;
  training.layout.tensor = 4;
  training.layout.pipeline = 4;
  training.layout.data = 4;
  training.batch = {.global = 64, .micro = 2};
  return training;
}

TEST(CheckTraining, AcceptsWhatCanRun) {
  const Status status = CheckTraining(SmallModel(), Cluster(), Valid());
  EXPECT_TRUE(status.ok()) << status;
}

// Each row breaks one rule of the valid layout; the message names both figures and what would do.
TEST(CheckTraining, NamesTheRuleThatIsBroken) {
  const struct {
    void (*breaks)(Model&, Training&);
    const char* want;
  } kRows[] = {
      {[](Model&, Training& t) { t.layout.data = 5; },
       "is 80 devices, the cluster has 64: data 4 would fill it"},
      {[](Model&, Training& t) { t.layout.pipeline = 3; },
       "no data size fills it, as tensor x pipeline x context is 12"},
      {[](Model& m, Training&) { m.heads = 18, m.kv_heads = 18; },
       "tensor 4 does not divide the 18 heads: 3 would"},
      {[](Model& m, Training&) { m.ffn_hidden = 8190; }, "does not divide the 8,190 of ffn_hidden"},
      {[](Model& m, Training&) { m.heads = 12, m.kv_heads = 6; },
       "neither divides the 6 kv_heads nor is a multiple of them: 3 would do"},
      {[](Model& m, Training&) { m.layers = 1; }, "is 4 stages for 1 layers"},
      {[](Model&, Training& t) {
         t.layout.layers_per_stage = {6, 6, 6};
       },
       "layers_per_stage has 3 entries for pipeline x virtual_pipeline = 4"},
      {[](Model&, Training& t) {
         t.layout.layers_per_stage = {6, 6, 6, 5};
       },
       "layers_per_stage sums to 23, the model has 24 layers"},
      {[](Model&, Training& t) { t.layout.expert = 2; }, "for a model without experts"},
      {[](Model& m, Training& t) {
         m.experts = Experts{.count = 8, .top_k = 2, .ffn_hidden = 512};
         t.layout.expert = 3;
       },
       "expert 3 does not divide the 8 experts: 2 would"},
      {[](Model& m, Training& t) {
         m.experts = Experts{.count = 32, .top_k = 2, .ffn_hidden = 512};
         t.layout.expert = 32;
       },
       "expert x expert_tensor = 32 does not divide data x context x tensor = 16: 16 would"},
      {[](Model&, Training& t) { t.batch.global = 3; }, "give at least 4"},
      {[](Model&, Training& t) { t.batch.micro = 17; },
       "is more than a replica's share of 16 sequences"},
      {[](Model&, Training& t) { t.batch.micro = 0; }, "micro batch: 0 is out of range"},
      {[](Model&, Training& t) { t.precision = Precision::kFp8; },
       "a100-80gb-sxm has no fp8 unit: bf16 would do"},
      {[](Model& m, Training& t) {
         t.layout.data = 2;
         t.layout.context = 2;
         m.sequence_length = 4098;
       },
       "a ring cuts the sequence into 4 pieces"},
      {[](Model&, Training& t) { t.layout.shard_group = 3; },
       "shard_group 3 does not divide the 4 replicas"},
      {[](Model&, Training& t) { t.layout.zero_stage = 4; }, "zero_stage: 4 is out of range"},
      {[](Model&, Training& t) { t.layout.tensor = 4'000'000'000; },
       "tensor: 4,000,000,000 is out of range"},
  };
  for (const auto& row : kRows) {
    Model model = SmallModel();
    Training training = Valid();
    row.breaks(model, training);
    const Status status = CheckTraining(model, Cluster(), training);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << row.want;
    EXPECT_THAT(status.message(), HasSubstr(row.want));
  }
}

TEST(CheckTraining, LetsTheMicroBatchNotDivide) {
  Training training = Valid();
  training.batch.micro = 11;
  EXPECT_TRUE(CheckTraining(SmallModel(), Cluster(), training).ok());
}

}  // namespace
}  // namespace longhaul::spec::training_test
