// The expected files in ../testdata/flags were written by hand from the frameworks' own option
// lists, not by running the writers.
#include "planner/flags/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "spec/job/job.h"

namespace longhaul::planner::flags {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Golden(const std::string& name) {
  std::ifstream file(std::string(LONGHAUL_FLAGS_TESTDATA) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name << " is missing";
  return text.str();
}

spec::Model Llama405B() {
  spec::Model model;
  model.name = "Llama 3.1 405B";
  model.layers = 126;
  model.hidden = 16384;
  model.ffn_hidden = 53248;
  model.heads = 128;
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

Question Llama405BQuestion() {
  Question question;
  question.model = Llama405B();
  question.cluster.devices = 16384;
  spec::Training& training = question.training;
  training.layout.tensor = 8;
  training.layout.sequence_parallel = true;
  training.layout.pipeline = 16;
  training.layout.virtual_pipeline = 8;  // 128 chunks: 126 layers, embedding and loss
  training.layout.data = 128;
  training.layout.zero_stage = 1;
  training.batch = {2048, 1};
  training.recompute.kind = spec::RecomputeKind::kSelective;
  training.recompute.modules.layer_norm = true;
  training.recompute.modules.mlp = true;
  training.software.overlap_tensor = true;
  return question;
}

Question Small() {
  Question question;
  question.model = Llama405B();
  question.model.layers = 32;
  question.cluster.devices = 32;
  question.training.layout.data = 32;
  question.training.batch = {256, 2};
  return question;
}

std::string Text(Framework framework, const Question& question) {
  const Result<Launch> launch = WriteLaunch(framework, question);
  return launch.ok() ? launch->text : "REFUSED: " + launch.status().message();
}

TEST(Megatron, WritesTheScriptWorkedByHand) {
  EXPECT_EQ(Text(Framework::kMegatron, Llama405BQuestion()), Golden("llama_405b.megatron"));
}

TEST(Megatron, WritesUnevenStagesInItsOwnLetters) {
  Question question = Small();
  question.model.layers = 6;
  question.training.layout.data = 8;
  question.training.layout.pipeline = 4;
  question.training.layout.layers_per_stage = {1, 2, 3, 0};
  EXPECT_THAT(Text(Framework::kMegatron, question),
              HasSubstr("--pipeline-model-parallel-layout 'Et|t*2|t*3|L'"));
}

TEST(Megatron, WritesExpertsWithTheirLayers) {
  Question question = Small();
  question.model.layers = 5;
  question.model.experts = spec::Experts{.count = 64,
                                         .top_k = 6,
                                         .ffn_hidden = 1408,
                                         .shared = 2,
                                         .shared_ffn_hidden = 1408,
                                         .dense_first_layers = 1};
  question.training.layout.expert = 8;
  const std::string text = Text(Framework::kMegatron, question);
  EXPECT_THAT(text, HasSubstr("--num-experts 64"));
  EXPECT_THAT(text, HasSubstr("--moe-layer-freq '([0]*1+[1]*4)'"));
  EXPECT_THAT(text, HasSubstr("--moe-shared-expert-intermediate-size 2816"));
  EXPECT_THAT(text, HasSubstr("--expert-model-parallel-size 8"));
}

TEST(Megatron, WritesTheNormsAndRoutersThatAModelHas) {
  Question question = Small();
  EXPECT_THAT(Text(Framework::kMegatron, question), Not(HasSubstr("--qk-layernorm")));
  question.model.qk_norm = true;
  question.model.experts =
      spec::Experts{.count = 64, .top_k = 6, .ffn_hidden = 1408, .router_bias = true};
  const std::string text = Text(Framework::kMegatron, question);
  EXPECT_THAT(text, HasSubstr("--qk-layernorm"));
  EXPECT_THAT(text, HasSubstr("--moe-router-score-function sigmoid"));
  EXPECT_THAT(text, HasSubstr("--moe-router-enable-expert-bias"));
}

TEST(Megatron, ShardsWeightsWithItsOwnFsdp) {
  Question question = Small();
  question.training.layout.zero_stage = 3;
  question.training.layout.shard_group = 8;
  const std::string text = Text(Framework::kMegatron, question);
  EXPECT_THAT(text, HasSubstr("--data-parallel-sharding-strategy optim_grads_params"));
  EXPECT_THAT(text, HasSubstr("--num-distributed-optimizer-instances 4"));
  EXPECT_THAT(text, HasSubstr("export CUDA_DEVICE_MAX_CONNECTIONS=8"));
}

Question OverlappedExperts() {
  Question question = Small();
  question.model.experts = spec::Experts{.count = 64, .top_k = 6, .ffn_hidden = 1408};
  question.training.layout.expert = 8;
  question.training.software.overlap_expert = true;
  return question;
}

TEST(Megatron, OverlapsTheExchangeOfExpertsWithMoreStreams) {
  const std::string text = Text(Framework::kMegatron, OverlappedExperts());
  EXPECT_THAT(text, HasSubstr("--overlap-moe-expert-parallel-comm"));
  EXPECT_THAT(text, HasSubstr("export CUDA_DEVICE_MAX_CONNECTIONS=32"));
  Question question = OverlappedExperts();
  question.training.layout.expert = 1;
  question.training.software.overlap_expert = false;
  EXPECT_THAT(Text(Framework::kMegatron, question), Not(HasSubstr("--overlap-moe")));
}

// Each row breaks one of the option's rules.
TEST(Megatron, RefusesAnOverlapOfExpertsThatItCannotRun) {
  const struct {
    void (*change)(Question&);
    const char* want;
  } kRows[] = {
      {[](Question& q) { q.training.layout.expert = 1; }, "expert size of 2"},
      {[](Question& q) {
         q.training.layout.pipeline = 4;
         q.training.layout.data = 8;
       },
       "several chunks a rank"},
      {[](Question& q) { q.training.recompute.kind = spec::RecomputeKind::kFull; },
       "whole layers or experts"},
      {[](Question& q) {
         q.training.recompute.kind = spec::RecomputeKind::kSelective;
         q.training.recompute.modules.moe = true;
       },
       "whole layers or experts"},
      {[](Question& q) { q.training.precision = spec::Precision::kFp32; }, "bf16 or fp16"},
      {[](Question& q) { q.model.multi_token_prediction_layers = 2; }, "one extra prediction"},
  };
  ASSERT_EQ(CheckExpressible(Framework::kMegatron, OverlappedExperts()), Status());
  for (const auto& row : kRows) {
    Question question = OverlappedExperts();
    row.change(question);
    EXPECT_THAT(CheckExpressible(Framework::kMegatron, question).message(), HasSubstr(row.want));
  }
  Question question = OverlappedExperts();
  question.training.layout.zero_stage = 3;
  EXPECT_THAT(CheckExpressible(Framework::kTorchtitan, question).message(),
              HasSubstr("overlap_expert=false"));
}

TEST(Torchtitan, WritesTheFileWorkedByHand) {
  Question question = Llama405BQuestion();
  question.model.layers = 126;
  question.cluster.devices = 512;
  spec::Training& training = question.training;
  training.layout = {};
  training.layout.tensor = 8;
  training.layout.sequence_parallel = true;
  training.layout.context = 2;
  training.layout.context_kind = spec::ContextKind::kAllGather;
  training.layout.pipeline = 4;
  training.layout.data = 8;
  training.layout.zero_stage = 3;
  training.layout.shard_group = 4;
  training.layout.layers_per_stage = {1, 2, 1, 0};
  training.batch = {64, 1};
  training.recompute = {};
  training.recompute.kind = spec::RecomputeKind::kFull;
  training.software.compiled = true;
  EXPECT_EQ(Text(Framework::kTorchtitan, question), Golden("llama_405b_uneven.torchtitan"));
}

TEST(DeepSpeed, WritesTheFileWorkedByHand) {
  Question question = Small();
  question.training.layout.zero_stage = 3;
  question.training.offload = spec::Offload::kOptimizer;
  question.training.recompute.kind = spec::RecomputeKind::kFull;
  EXPECT_EQ(Text(Framework::kDeepSpeed, question), Golden("zero3.deepspeed"));
}

Question BuiltIn() {
  Question question;
  question.model.layers = 4;
  question.model.hidden = 128;
  question.model.ffn_hidden = 512;
  question.model.heads = 4;
  question.model.kv_heads = 4;
  question.model.head_dim = 32;
  question.model.vocabulary = 257;
  question.model.sequence_length = 128;
  question.model.bias = true;
  question.cluster.devices = 4;
  question.cluster.devices_per_node = 2;
  question.training.layout.data = 4;
  question.training.batch = {32, 4};
  return question;
}

TEST(LonghaulFile, WritesTheFileWorkedByHand) {
  EXPECT_EQ(Text(Framework::kLonghaul, BuiltIn()), Golden("built_in.longhaul"));
}

TEST(LonghaulFile, IsReadBackByTheJobReader) {
  for (const Question& question : {BuiltIn(), Llama405BQuestion()}) {
    const std::string text = Text(Framework::kLonghaul, question);
    const auto job = spec::ParseJob(text, "planned.yaml");
    ASSERT_TRUE(job.ok()) << job.status() << "\n" << text;
    EXPECT_EQ(job->resources.nodes, question.cluster.devices / question.cluster.devices_per_node);
  }
}

TEST(LonghaulFile, RunsMegatronWhereTheTrainerLacksTheModel) {
  const std::string text = Text(Framework::kLonghaul, Llama405BQuestion());
  EXPECT_THAT(text, HasSubstr("  - '--recompute-modules'\n  - 'layernorm'\n  - 'mlp'\n"));
  EXPECT_THAT(text, HasSubstr("  nodes: 2048\n  processes_per_node: 8\n"));
}

// Each row breaks one rule of one framework; the refusal names what is missing.
TEST(CheckExpressible, NamesWhatTheFrameworkLacks) {
  const struct {
    Framework framework;
    void (*change)(Question&);
    const char* want;
  } kRows[] = {
      {Framework::kMegatron, [](Question& q) { q.model.position = spec::Position::kAlibi; },
       "ALiBi"},
      {Framework::kMegatron,
       [](Question& q) {
         q.training.layout.pipeline = 4;
         q.training.layout.data = 8;
         q.training.layout.schedule = spec::PipelineSchedule::kZeroBubbleH1;
       },
       "pipeline schedule"},
      {Framework::kMegatron, [](Question& q) { q.training.offload = spec::Offload::kActivations; },
       "activations"},
      {Framework::kMegatron,
       [](Question& q) {
         q.training.layout.pipeline = 5;
         q.model.layers = 32;
       },
       "do not spread"},
      {Framework::kMegatron,
       [](Question& q) {
         q.training.layout.pipeline = 2;
         q.training.layout.zero_stage = 3;
       },
       "without pipeline"},
      {Framework::kTorchtitan,
       [](Question& q) {
         q.training.layout.data = 8;
         q.training.layout.tensor = 4;
         q.training.layout.sequence_parallel = true;
         q.training.layout.order = {spec::Dimension::kData, spec::Dimension::kTensor,
                                    spec::Dimension::kContext, spec::Dimension::kPipeline};
       },
       "in this order"},
      {Framework::kDeepSpeed, [](Question& q) { q.training.layout.tensor = 2; }, "tensor"},
      {Framework::kDeepSpeed, [](Question& q) { q.training.batch.global = 255; }, "255"},
      {Framework::kDeepSpeed,
       [](Question& q) { q.training.recompute.kind = spec::RecomputeKind::kSelective; }, "modules"},
      {Framework::kDeepSpeed,
       [](Question& q) {
         q.training.layout.zero_stage = 3;
         q.training.layout.shard_group = 8;
       },
       "mics_shard_size"},
      {Framework::kTorchtitan,
       [](Question& q) {
         q.model.experts = spec::Experts{.count = 64, .top_k = 6, .ffn_hidden = 1408};
         q.training.layout.zero_stage = 3;
         q.training.layout.shard_group = 4;
         q.training.layout.expert = 8;
       },
       "it must divide 4 "},
      {Framework::kTorchtitan, [](Question& q) { q.training.layout.zero_stage = 1; }, "alone"},
      {Framework::kTorchtitan, [](Question& q) { q.training.offload = spec::Offload::kOptimizer; },
       "together"},
      {Framework::kTorchtitan,
       [](Question& q) {
         q.training.layout.context = 2;
         q.training.layout.context_kind = spec::ContextKind::kAllToAll;
       },
       "by heads"},
  };
  for (const auto& row : kRows) {
    Question question = Small();
    ASSERT_EQ(CheckExpressible(row.framework, question), Status()) << row.want;
    row.change(question);
    EXPECT_THAT(CheckExpressible(row.framework, question).message(), HasSubstr(row.want));
    EXPECT_FALSE(WriteLaunch(row.framework, question).ok()) << row.want;
  }
}

TEST(WriteLaunch, PutsNothingOfAHostileNameIntoTheScript) {
  Question question = Small();
  question.model.name = "x\nrm -rf /\n#";
  for (const Framework framework : {Framework::kMegatron, Framework::kTorchtitan}) {
    EXPECT_THAT(Text(framework, question), Not(HasSubstr("\nrm")));
  }
  EXPECT_THAT(Text(Framework::kLonghaul, question), Not(HasSubstr("\nrm")));
}

TEST(ParseFramework, NamesTheNearest) {
  EXPECT_EQ(*ParseFramework("torchtitan"), Framework::kTorchtitan);
  EXPECT_THAT(ParseFramework("megatrn").status().message(), HasSubstr("did you mean megatron"));
}

}  // namespace
}  // namespace longhaul::planner::flags
