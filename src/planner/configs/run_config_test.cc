#include "planner/configs/run_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/configs/internal/megatron_layers.h"
#include "planner/configs/internal/shell_words.h"
#include "planner/search/settings.h"
#include "spec/cluster/device_cluster.h"
#include "spec/model/model_reader.h"

namespace longhaul::planner::configs {
namespace {

using flags::Framework;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

spec::DeviceCluster Cluster(const std::string& name) { return *spec::ParseClusterName(name); }

Question Ask(const std::string& model, const std::string& cluster) {
  Question question;
  question.model = *spec::FindModel(model);
  question.cluster = Cluster(cluster);
  question.training.layout.data = question.cluster.devices;
  question.training.batch = {512, 1};
  return question;
}

struct Trip {
  const char* what;
  Framework framework;
  const char* model;
  const char* cluster;
  const char* layout;  // as --fix takes it
};

// Layouts of every kind that a framework has options for.
constexpr Trip kTrips[] = {
    {"one GPU", Framework::kMegatron, "gpt2", "a100-80gb-sxm:1", ""},
    {"interleaved", Framework::kMegatron, "llama-3.1-405b", "h100-sxm:1024",
     "tensor=8,sequence_parallel=true,pipeline=16,virtual_pipeline=8,data=8,zero=1"},
    {"uneven", Framework::kMegatron, "llama-3.1-8b", "h100-sxm:8",
     "pipeline=4,layers=7+8+9+8,data=2"},
    {"uneven chunks", Framework::kMegatron, "llama-3.1-8b", "h100-sxm:8",
     "pipeline=2,virtual_pipeline=2,layers=7+8+9+8,data=4"},
    {"experts", Framework::kMegatron, "deepseek-v3", "h100-sxm:1024",
     "expert=32,pipeline=16,layers=3+4+4+4+4+4+4+4+4+4+4+4+4+4+4+2,data=64,zero=1,"
     "recompute=layer_norm+moe_activation+mla_up_projection"},
    {"context by heads", Framework::kMegatron, "llama-3.1-8b", "h100-sxm:16",
     "context=4,context_kind=all-to-all,data=4,zero=1"},
    {"pipeline inside", Framework::kMegatron, "llama-3.1-8b", "h100-sxm:16",
     "pipeline=2,data=8,order=tensor-context-pipeline-data"},
    {"sharded weights", Framework::kMegatron, "llama-3.1-8b", "h100-sxm:16",
     "data=16,zero=3,shard_group=8"},
    {"offload", Framework::kMegatron, "llama-3.1-8b", "h100-sxm:8",
     "data=8,zero=1,offload=optimizer,micro=2,recompute=full:3"},
    {"all", Framework::kMegatron, "qwen3-30b-a3b", "h100-sxm:16",
     "tensor=2,sequence_parallel=true,expert=8,expert_tensor=1,data=8,zero=1,recompute=full"},
    {"overlapped experts", Framework::kMegatron, "qwen3-30b-a3b", "h100-sxm:16",
     "expert=8,data=16,zero=1,overlap_expert=true,recompute=layer_norm+moe_activation"},
    {"overlapped experts in chunks", Framework::kMegatron, "qwen3-30b-a3b", "h100-sxm:16",
     "expert=4,pipeline=4,virtual_pipeline=3,data=4,zero=1,overlap.expert=true"},
    {"fsdp", Framework::kTorchtitan, "llama-3.1-8b", "h100-sxm:8", "data=8,zero=3,recompute=full"},
    {"hsdp", Framework::kTorchtitan, "llama-3.1-8b", "h100-sxm:16", "data=16,zero=2,shard_group=8"},
    {"replicated", Framework::kTorchtitan, "qwen3-0.6b", "h100-sxm:4", "data=4,micro=4"},
    {"tensor and context", Framework::kTorchtitan, "llama-3.1-70b", "h100-sxm:64",
     "tensor=4,sequence_parallel=true,context=2,context_kind=all-gather,data=8,zero=3"},
    {"stages", Framework::kTorchtitan, "llama-3.1-70b", "h100-sxm:64",
     "pipeline=4,virtual_pipeline=2,data=16,zero=3,micro=2"},
    {"uneven stages", Framework::kTorchtitan, "llama-3.1-8b", "h100-sxm:16",
     "pipeline=4,layers=7+8+9+8,data=4,zero=3"},
    {"zero bubble", Framework::kTorchtitan, "llama-3.1-8b", "h100-sxm:16",
     "pipeline=4,virtual_pipeline=2,schedule=zb-v,data=4,zero=3"},
    {"zero 1", Framework::kDeepSpeed, "llama-3.1-8b", "h100-sxm:16", "data=16,zero=1"},
    {"zero 3", Framework::kDeepSpeed, "llama-3.1-8b", "h100-sxm:16",
     "data=16,zero=3,micro=4,recompute=full,offload=optimizer"},
};

spec::Training TrainingOf(const Trip& trip, const Question& question) {
  search::Fixed fixed;
  if (*trip.layout != '\0') {
    EXPECT_EQ(search::ParseFixed(trip.layout, fixed), Status());
  }
  spec::Training training = question.training;
  spec::Layout& layout = training.layout;
  layout.tensor = fixed.tensor.value_or(1);
  layout.pipeline = fixed.pipeline.value_or(1);
  layout.virtual_pipeline = fixed.virtual_pipeline.value_or(1);
  layout.context = fixed.context.value_or(1);
  layout.context_kind = fixed.context_kind.value_or(layout.context_kind);
  layout.expert = fixed.expert.value_or(1);
  layout.expert_tensor = fixed.expert_tensor.value_or(1);
  layout.data = fixed.data.value_or(1);
  layout.zero_stage = fixed.zero_stage.value_or(0);
  layout.shard_group = fixed.shard_group.value_or(0);
  layout.sequence_parallel = fixed.sequence_parallel.value_or(false);
  layout.schedule = fixed.schedule.value_or(layout.schedule);
  layout.order = fixed.order.value_or(layout.order);
  layout.layers_per_stage = fixed.layers_per_stage.value_or(std::vector<uint32_t>());
  training.batch.micro = fixed.micro_batch.value_or(1);
  training.recompute = fixed.recompute.value_or(spec::Recompute());
  training.offload = fixed.offload.value_or(spec::Offload::kNone);
  training.software.overlap_expert = fixed.overlap_expert.value_or(false);
  return training;
}

TEST(RunConfig, ReadsBackWhatTheWritersWrite) {
  for (const Trip& trip : kTrips) {
    SCOPED_TRACE(std::string(flags::ToString(trip.framework)) + ": " + trip.what);
    Question asked = Ask(trip.model, trip.cluster);
    asked.training = TrainingOf(trip, asked);
    const auto launch = flags::WriteLaunch(trip.framework, asked);
    ASSERT_TRUE(launch.ok()) << launch.status();
    const auto config = ReadRunConfig(trip.framework, launch->text, "written");
    ASSERT_TRUE(config.ok()) << config.status() << "\n" << launch->text;
    EXPECT_TRUE(config->unknown.empty()) << config->unknown.front();
    std::optional<spec::Model> model;
    if (trip.framework == Framework::kDeepSpeed) model = asked.model;
    const auto read = QuestionOf(*config, model, asked.cluster);
    ASSERT_TRUE(read.ok()) << read.status() << "\n" << launch->text;
    EXPECT_EQ(search::LayoutText(read->training), search::LayoutText(asked.training))
        << launch->text;
    EXPECT_EQ(read->training.batch, asked.training.batch);
    EXPECT_EQ(read->training.precision, asked.training.precision);
    EXPECT_EQ(read->training.software.overlap_expert, asked.training.software.overlap_expert);
    EXPECT_EQ(read->model.layers, asked.model.layers);
    EXPECT_EQ(read->model.vocabulary, asked.model.vocabulary);
    EXPECT_EQ(read->model.ffn_hidden, asked.model.ffn_hidden);
    EXPECT_EQ(read->model.kv_heads, asked.model.kv_heads);
    EXPECT_EQ(read->model.sequence_length, asked.model.sequence_length);
  }
}

// In the style of the examples that people start from: variables, arrays, comments.
constexpr const char* kScript = R"(#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-2}
TP=2   # inside a node
PP=2
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr $MASTER_ADDR
)
GPT_MODEL_ARGS=(
    --num-layers 24
    --hidden-size 2048
    --num-attention-heads 16
    --seq-length 2048
    --max-position-embeddings 2048
    --vocab-size 50257
)
TRAINING_ARGS=(
    --micro-batch-size 4
    --global-batch-size $((WORLD_SIZE * 16))
    --lr 6.0e-5 --lr-decay-style cosine
    --bf16
    --train-iters 500000
)
MODEL_PARALLEL_ARGS=(--tensor-model-parallel-size ${TP} --pipeline-model-parallel-size ${PP})
MODEL_PARALLEL_ARGS+=(--use-distributed-optimizer)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${GPT_MODEL_ARGS[@]} \
    "${TRAINING_ARGS[@]}" ${MODEL_PARALLEL_ARGS[@]} \
    --data-path $DATA_PATH --split 949,50,1
)";

TEST(Megatron, ReadsAScriptOfVariablesAndArrays) {
  const auto config = ReadRunConfig(Framework::kMegatron, kScript, "train.sh");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->unknown.empty()) << config->unknown.front();
  EXPECT_EQ(config->devices, 16u);
  const auto question = QuestionOf(*config, std::nullopt, Cluster("a100-80gb-sxm:16"));
  ASSERT_TRUE(question.ok()) << question.status();
  const spec::Training& training = question->training;
  EXPECT_EQ(search::LayoutText(training),
            "tensor=2,sequence_parallel=false,pipeline=2,schedule=1f1b,data=4,micro=4,zero=1,"
            "recompute=none");
  EXPECT_EQ(training.batch, (spec::Batch{256, 4}));
  EXPECT_EQ(training.precision, spec::Precision::kBf16);
  EXPECT_EQ(question->model.ffn_hidden, 8192u);
  EXPECT_TRUE(question->model.dropout);
  EXPECT_TRUE(question->model.tied_embeddings);
  EXPECT_FALSE(training.software.overlap_gradient);  // off unless asked for
}

TEST(Megatron, ReadsOptionsInYaml) {
  const auto config = ReadRunConfig(Framework::kMegatron, R"(
ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: 1
MODEL_ARGS:
  --num-layers: 32
  --hidden-size: 4096
  --num-attention-heads: 32
  --group-query-attention: true
  --num-query-groups: 8
  --ffn-hidden-size: 14336
  --swiglu: true
  --seq-length: 4096
  tensor_model_parallel_size: 4
  --sequence-parallel: true
  --micro-batch-size: 1
  --bf16: true
  --fp16: false
  --recompute-granularity: selective
  --recompute-modules: [core_attn, mlp]
)",
                                    "model_config.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->training.layout.tensor, 4u);
  EXPECT_EQ(config->training.precision, spec::Precision::kBf16);
  EXPECT_TRUE(config->training.recompute.modules.mlp);
  ASSERT_TRUE(config->model.has_value());
  EXPECT_EQ(config->model->kv_heads, 8u);
  EXPECT_THAT(config->assumed, Contains(HasSubstr("vocabulary = 128256 (that of llama-3")));
}

TEST(Megatron, NamesUnknownOptionsWithTheNearest) {
  const auto config = ReadRunConfig(
      Framework::kMegatron,
      "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --tensor-model-paralel-size 2 "
      "--lr 1e-4 --wandb-project x --hybrid-override-pattern M*",
      "args");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->unknown,
              ElementsAre(HasSubstr("--hybrid-override-pattern (the planner has no figures"),
                          "--tensor-model-paralel-size (did you mean "
                          "--tensor-model-parallel-size?)"));
  EXPECT_EQ(config->passed_over, 2u);
}

// toml++ asserts or is undefined for each of these.
TEST(Torchtitan, RefusesWhatTheLibraryCannotTake) {
  for (const char* text : {"[[[", "\xc3\x80 = 1", "[\xc3\x80]"}) {
    const auto read = ReadRunConfig(Framework::kTorchtitan, text, "train.toml");
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(read.status().message(), HasSubstr("not valid TOML")) << text;
  }
}

TEST(Torchtitan, ReadsDegreesThatAreLeftOver) {
  const auto config = ReadRunConfig(Framework::kTorchtitan, R"(
[job]
description = "Llama 3 8B"
[model]
name = "llama3"
flavor = "8B"
converters = ["quantize.linear.float8"]
[training]
local_batch_size = 2
seq_len = 8192
steps = 1_000
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
[parallelism_typo]
x = 1
)",
                                    "train.toml");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->unknown, ElementsAre("parallelism_typo.x"));
  const auto question = QuestionOf(*config, std::nullopt, Cluster("h100-sxm:32"));
  ASSERT_TRUE(question.ok()) << question.status();
  EXPECT_EQ(question->training.layout.data, 16u);
  EXPECT_EQ(question->training.layout.shard_group, 8u);
  EXPECT_EQ(question->training.layout.zero_stage, 3u);
  EXPECT_EQ(question->training.batch, (spec::Batch{32, 2}));
  EXPECT_EQ(question->training.precision, spec::Precision::kFp8);
}

TEST(DeepSpeed, TakesAutoAsNotSaid) {
  const auto config = ReadRunConfig(Framework::kDeepSpeed, R"({
    "train_batch_size": 64, "gradient_accumulation_steps": 4, "gradient_clipping": "auto",
    "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": true},
    "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": 5e8,
      "offload_optimizer": {"device": "cpu"}, "stages": 3}})",
                                    "ds.json");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->unknown, ElementsAre("zero_optimization.stages (did you mean "
                                           "zero_optimization.stage?)"));
  const auto question = QuestionOf(*config, *spec::FindModel("llama-3.1-8b"), Cluster("h100-sxm"));
  ASSERT_TRUE(question.ok()) << question.status();
  EXPECT_EQ(question->training.batch, (spec::Batch{64, 2}));
  EXPECT_EQ(question->training.offload, spec::Offload::kOptimizer);
  EXPECT_EQ(question->training.software.gradient_bytes, 2u);
  EXPECT_FALSE(QuestionOf(*config, std::nullopt, Cluster("h100-sxm")).ok());
}

// Each row: a mistake, and what the refusal says of it.
TEST(ReadRunConfig, NamesTheSettingTheValueAndWhatWouldDo) {
  const struct {
    Framework framework;
    const char* text;
    const char* want;
  } kRows[] = {
      {Framework::kMegatron, "--num-layers many", "--num-layers must be a number from 1 to 10,000"},
      {Framework::kMegatron, "--num-layers 2.5", "--num-layers must be a whole number, not 2.5"},
      {Framework::kMegatron, "--num-layers -3", "must be a number from 1 to 10,000, not -3"},
      {Framework::kMegatron, "--num-layers 8 --micro-batch-size $MBS",
       "--micro-batch-size is $MBS, which the file does not set"},
      {Framework::kMegatron, "--num-layers '8", "args:1: a quote that does not end"},
      {Framework::kMegatron, "--num-layers 8 --cp-comm-type p2", "did you mean p2p?"},
      {Framework::kMegatron,
       "--num-layers 8 --recompute-granularity selective "
       "--recompute-modules mlpp",
       "has no module mlpp: did you mean mlp?"},
      {Framework::kMegatron, "--num-layers 9 --pipeline-model-parallel-size 2",
       "9 layers do not spread evenly over 2 stages"},
      {Framework::kMegatron, "--num-layers 9 --pipeline-model-parallel-layout Et*9x|L",
       "the letter x"},
      {Framework::kTorchtitan, "[parallelism\n", "args:1: not valid TOML"},
      {Framework::kTorchtitan, "[parallelism]\ntensor_parallel_degree = 0",
       "parallelism.tensor_parallel_degree must be a number from 1"},
      {Framework::kTorchtitan, "[activation_checkpoint]\nmode = \"ful\"", "did you mean full?"},
      {Framework::kDeepSpeed, "{\"zero_optimization\":{\"stage\":4}}",
       "zero_optimization.stage must be a number from 0 to 3, not 4"},
      {Framework::kDeepSpeed, "{\"train_batch_size\":", "not valid JSON"},
      {Framework::kDeepSpeed, "[1]", "expected a JSON object"},
      {Framework::kDeepSpeed,
       "{\"train_batch_size\":30,\"train_micro_batch_size_per_gpu\":4,"
       "\"gradient_accumulation_steps\":4}",
       "train_batch_size 30 is no multiple"},
      {Framework::kLonghaul, "name: x", "longhaul run"},
  };
  for (const auto& row : kRows) {
    const auto config = ReadRunConfig(row.framework, row.text, "args");
    EXPECT_THAT(config.status().message(), HasSubstr(row.want)) << row.text;
  }
}

TEST(QuestionOf, SaysWhichClusterWouldDo) {
  const auto config = ReadRunConfig(Framework::kMegatron, kScript, "train.sh");
  ASSERT_TRUE(config.ok());
  EXPECT_THAT(QuestionOf(*config, std::nullopt, Cluster("h100-sxm:2")).status().message(),
              HasSubstr("name a cluster of a multiple of 4"));
  const auto shards = ReadRunConfig(Framework::kTorchtitan,
                                    "[model]\nflavor = \"8B\"\n[parallelism]\n"
                                    "data_parallel_shard_degree = 8",
                                    "train.toml");
  ASSERT_TRUE(shards.ok());
  EXPECT_THAT(QuestionOf(*shards, std::nullopt, Cluster("h100-sxm:16")).status().message(),
              HasSubstr("the run has 8 replicas of 1 ranks and the cluster 16 GPUs: name a cluster "
                        "of 8"));
}

TEST(ShellWords, KeepsWhatTheScriptDoesNotSet) {
  const auto script = internal::ReadShell(
      "A='x y'; B=\"$A z\"\nrun $B \"$B\" ${C} ${D:-4} $((2*3+$E)) $(date) \\\n last # no\n", "s");
  ASSERT_TRUE(script.ok()) << script.status();
  ASSERT_EQ(script->commands.size(), 1u);
  EXPECT_THAT(script->commands[0], ElementsAre("run", "x", "y", "z", "x y z", "${C}", "4",
                                               "$((2*3+$E))", "$(date)", "last"));
}

TEST(ShellWords, SplitsWhatIsNotQuoted) {
  const auto script = internal::ReadShell("A=(\"--x 1\" --y)\nrun ${A[@]} \"${A[@]}\"\n", "s");
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_THAT(script->commands[0], ElementsAre("run", "--x", "1", "--y", "--x 1", "--y"));
}

TEST(ShellWords, RefusesAScriptThatGrowsWithoutEnd) {
  std::string bomb = "A=0123456789\n";
  for (int i = 0; i < 40; ++i) bomb += "A=\"$A$A\"\n";
  EXPECT_THAT(internal::ReadShell(bomb, "s").status().message(), HasSubstr("too much text"));
}

TEST(MegatronLayers, ReadsLettersAndPatterns) {
  EXPECT_THAT(*internal::ParseStageLetters("Et*3|(t|)*2tt|mL"), ElementsAre(3, 1, 1, 2, 0));
  EXPECT_FALSE(internal::ParseStageLetters("(t*9999)*9999").ok());
  EXPECT_FALSE(internal::ParseStageLetters("((t").ok());
  spec::Experts experts;
  EXPECT_EQ(internal::ParseExpertLayers("([0]*3+[1]*58)", 61, experts), Status());
  EXPECT_EQ(experts.dense_first_layers, 3u);
  EXPECT_EQ(experts.every, 1u);
  EXPECT_EQ(internal::ParseExpertLayers("2", 24, experts), Status());
  EXPECT_EQ(experts.every, 2u);
  EXPECT_EQ(internal::ParseExpertLayers("[0,1]*2", 4, experts), Status());
  EXPECT_EQ(experts.dense_first_layers, 0u);
  EXPECT_EQ(experts.every, 2u);
  EXPECT_THAT(internal::ParseExpertLayers("[1]*9", 8, experts).message(),
              HasSubstr("for 8 layers"));
}

}  // namespace
}  // namespace longhaul::planner::configs
