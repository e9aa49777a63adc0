#include "planner/case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace longhaul::planner {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;

// A seed of the fuzzer; tests run in the project's root.
json Seed(const std::string& name) {
  std::ifstream file("src/planner/testdata/case_fuzz/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return json::parse(text.str());
}

Case Parsed(const json& text) {
  Case parsed;
  const Status status = ParseCase(text.dump(), parsed);
  EXPECT_TRUE(status.ok()) << status;
  return parsed;
}

std::string Refusal(const json& text) {
  Case parsed;
  const Status status = ParseCase(text.dump(), parsed);
  EXPECT_FALSE(status.ok());
  return status.message();
}

// One GiB a sequence; recompute halves it and costs a third. Interleaving pays by a tenth.
Evaluation Evaluate(const Question& question) {
  const spec::Training& training = question.training;
  const bool full = training.recompute.kind == spec::RecomputeKind::kFull;
  const double micro = training.batch.micro;
  Evaluation evaluation;
  evaluation.step = Seconds((1 + 1 / micro) * (full ? 4.0 / 3 : 1) *
                            (training.layout.virtual_pipeline > 1 ? 0.9 : 1));
  evaluation.peak_allocated = Bytes((int64_t{1} << 30) * training.batch.micro / (full ? 2 : 1));
  evaluation.device_memory = evaluation.peak_allocated;
  evaluation.fits = evaluation.device_memory <= question.cluster.device.memory;
  evaluation.stages.resize(2);
  evaluation.stages[1].memory.weights = evaluation.peak_allocated;
  return evaluation;
}

StepBand Band(const Case&, const Evaluation& evaluation) {
  return {0.9 * evaluation.step, 1.1 * evaluation.step};
}

TEST(ParseCase, ReadsAFullCase) {
  const Case parsed = Parsed(Seed("dense.json"));
  EXPECT_EQ(parsed.id, "dense");
  EXPECT_EQ(parsed.question.model.ffn_hidden, 14'336u);
  EXPECT_EQ(parsed.question.cluster.devices, 64u);
  EXPECT_EQ(parsed.question.training.layout.data, 16u);
  EXPECT_TRUE(parsed.question.training.layout.sequence_parallel);
  EXPECT_EQ(parsed.question.training.recompute.kind, spec::RecomputeKind::kNone);
  EXPECT_FALSE(parsed.open.any());
  EXPECT_TRUE(parsed.unknown.empty());
}

TEST(ParseCase, ReadsExpertsLatentsAndStages) {
  const Case parsed = Parsed(Seed("moe.json"));
  ASSERT_TRUE(parsed.question.model.experts && parsed.question.model.multi_latent);
  EXPECT_EQ(parsed.question.model.experts->capacity_factor, 1.5);
  EXPECT_EQ(parsed.question.model.multi_latent->kv_rank, 512u);
  EXPECT_EQ(parsed.question.model.sliding_window->every, 2u);
  EXPECT_EQ(parsed.question.training.layout.layers_per_stage, (std::vector<uint32_t>{3, 5}));
  EXPECT_TRUE(parsed.question.training.recompute.modules.moe_activation);
  EXPECT_EQ(parsed.question.training.software.moment_bytes, 2u);
  EXPECT_EQ(parsed.question.training.precision, spec::Precision::kFp8);
}

TEST(ParseCase, FillsGapsAndListsThem) {
  const Case parsed = Parsed(Seed("gaps.json"));
  const Question& question = parsed.question;
  EXPECT_EQ(question.model.kv_heads, 16u);
  EXPECT_EQ(question.model.head_dim, 128u);
  EXPECT_EQ(question.model.sequence_length, 2'048u);  // written as 2048.0
  EXPECT_EQ(question.cluster.device.name, "a100-80gb-sxm");
  EXPECT_EQ(question.cluster.network.per_device.count(), 25e9);
  EXPECT_EQ(question.training.layout.zero_stage, 1u);
  EXPECT_TRUE(parsed.open.tensor && parsed.open.pipeline && parsed.open.micro_batch);
  EXPECT_FALSE(parsed.global_batch_known);
  EXPECT_THAT(parsed.assumed, Contains("model.kv_heads = 16"));
  EXPECT_THAT(parsed.assumed, Contains("precision = bf16"));
}

TEST(ParseCase, KnowsWhatFrameworksDoByDefault) {
  json text = Seed("gaps.json");
  text["software"]["framework"] = "torchtitan";
  Case parsed = Parsed(text);
  EXPECT_EQ(parsed.question.training.layout.zero_stage, 3u);
  EXPECT_FALSE(parsed.open.tensor);
  text["software"] = {{"framework", "megatron-lm"}, {"release", "v2.5"}};
  text["precision"] = "fp16";
  parsed = Parsed(text);
  EXPECT_EQ(parsed.question.training.software.gradient_bytes, 2u);
  EXPECT_FALSE(parsed.question.training.software.flash_attention);
}

TEST(ParseCase, AnswersForUnknownFrameworksAndSaysSo) {
  json text = Seed("dense.json");
  text["software"]["framework"] = "never-heard-of";
  const Case parsed = Parsed(text);
  EXPECT_THAT(parsed.assumed, Contains(HasSubstr("nothing is known of its name")));
  text["software"]["framework"] = "torchtitan";
  EXPECT_THAT(Parsed(text).assumed, Contains(HasSubstr("nothing is known")).Times(0));
}

// Megatron-LM's arguments leave overlap off, what is built on its core turns it on.
TEST(ParseCase, OverlapsWhatTheFrameworkStartsWith) {
  json text = Seed("dense.json");
  text["software"] = {{"framework", "megatron-lm"}, {"release", "2023-08"}};
  EXPECT_FALSE(Parsed(text).question.training.software.overlap_gradient);
  text["software"] = {{"framework", "nemo"}, {"release", "24.09"}};
  EXPECT_TRUE(Parsed(text).question.training.software.overlap_gradient);
}

// NeMo up to 25.04 splits every expert over the tensor group, whatever its tables print.
TEST(ParseCase, SplitsExpertsAsTheReleaseDoes) {
  json text = Seed("moe.json");
  text["layout"] = {{"tensor", 2}, {"pipeline", 1}, {"expert", 2}, {"expert_tensor", 1}};
  text["cluster"]["gpus"] = 8;
  text["software"] = {{"framework", "nemo"}, {"release", "v25.02.02"}};
  Case parsed = Parsed(text);
  EXPECT_EQ(parsed.question.training.layout.expert_tensor, 2u);
  EXPECT_THAT(parsed.assumed, Contains(HasSubstr("layout.expert_tensor = 2")));
  text["software"]["release"] = "v25.05.05";
  EXPECT_EQ(Parsed(text).question.training.layout.expert_tensor, 1u);
}

TEST(ParseCase, LetsTheDevicesDecideTheReplicas) {
  json text = Seed("dense.json");
  text["layout"]["data"] = 64;  // the batch's share, as some tables print it
  const Case parsed = Parsed(text);
  EXPECT_EQ(parsed.question.training.layout.data, 16u);
  EXPECT_THAT(parsed.assumed, Contains("layout.data = 16 (fills the cluster)"));
}

TEST(ParseCase, SetsRightWhatTablesPrintAmiss) {
  const struct {
    void (*prints)(json&);
    const char* want;
  } kRows[] = {
      {[](json& c) {
         c["layout"]["layers_per_stage"] = {16, 18};
       },
       "layout.layers_per_stage = null (is not 32 layers in 4 chunks)"},
      {[](json& c) {
         c["layout"].update({{"pipeline", 1}, {"data", 32}});
       },
       "layout.virtual_pipeline = 1 (there is one stage)"},
      {[](json& c) { c["layout"]["shard_group"] = 5; },
       "layout.shard_group = null (does not divide the replicas)"},
      {[](json& c) {
         c["cluster"]["gpus"] = 12;
         c["layout"]["data"] = 3;
       },
       "cluster.gpus_per_node = 4 (the GPUs don't fill larger nodes)"},
      {[](json& c) { c["cluster"]["nvlink_domain"] = 6; }, "cluster.nvlink_domain = 8 (a node)"},
      {[](json& c) { c["batch"]["micro"] = 9; },
       "batch.micro = 8 (a replica has no more sequences)"},
  };
  for (const auto& row : kRows) {
    json text = Seed("dense.json");
    row.prints(text);
    Case parsed = Parsed(text);
    EXPECT_THAT(parsed.assumed, Contains(row.want));
    const Status legal = DecideOpen(Evaluate, parsed);
    EXPECT_TRUE(legal.ok()) << row.want << ": " << legal;
  }
}

TEST(ParseCase, NamesWhatIsWrong) {
  const struct {
    void (*breaks)(json&);
    const char* want;
  } kRows[] = {
      {[](json& c) { c["model"]["layers"] = -1; }, "model.layers: -1 is out of range: 1 to 10,000"},
      {[](json& c) { c["model"]["layers"] = 2.5; }, "model.layers: 2.5 is out of range"},
      {[](json& c) { c["model"]["layers"] = "x"; }, "must be a whole number (1 to 10,000), not"},
      {[](json& c) {
         c["model"].update({{"layers", nullptr}, {"name", nullptr}});
       },
       "layers: 0 is out of range"},
      {[](json& c) {
         c["model"].update({{"layers", nullptr}, {"name", "lama-3.1-8b"}});
       },
       "no model is called 'lama-3.1-8b', did you mean 'llama-3.1-8b'"},
      {[](json& c) { c["model"]["activation"] = "sillu"; }, "did you mean 'silu'"},
      {[](json& c) { c["cluster"]["gpu"] = "h100-smx"; }, "did you mean 'h100-sxm'"},
      {[](json& c) { c["cluster"]["gpus"] = 0; }, "cluster.gpus: 0 is out of range"},
      {[](json& c) { c["cluster"]["network"]["gb_per_s_per_gpu"] = -3; },
       "cluster.network.gb_per_s_per_gpu: must be a number above 0"},
      {[](json& c) { c["layout"] = 3; }, "layout: must be a map, not 3"},
      {[](json& c) {
         c["layout"]["layers_per_stage"] = {1, "x"};
       },
       "must hold whole numbers"},
      {[](json& c) { c["precision"] = "fp7"; }, "did you mean 'fp8'"},
      {[](json& c) {
         c["recompute"] = {{"kind", "selective"}, {"modules", {"mpl"}}};
       },
       "no module is called 'mpl', did you mean 'mlp'"},
  };
  for (const auto& row : kRows) {
    json text = Seed("dense.json");
    row.breaks(text);
    EXPECT_THAT(Refusal(text), HasSubstr(row.want));
  }
}

// A name answers for sizes only where they are missing; what is said is laid over it.
TEST(ParseCase, TakesMissingSizesFromTheCatalogue) {
  json text = Seed("dense.json");
  text["model"] = {{"name", "meta-llama/Llama-3.1-70B"}, {"sequence_length", 4096}};
  Case parsed = Parsed(text);
  EXPECT_EQ(parsed.question.model.layers, 80u);
  EXPECT_EQ(parsed.question.model.sequence_length, 4'096u);
  EXPECT_THAT(parsed.assumed, Contains(HasSubstr("model = llama-3.1-70b")));
  text["model"] = {{"name", "DeepSeekV3"}, {"layers", 8}};
  parsed = Parsed(text);
  EXPECT_EQ(parsed.question.model.layers, 8u);
  EXPECT_EQ(parsed.question.model.experts->count, 256u);
  EXPECT_TRUE(parsed.question.model.experts->balanced);
}

// Published sizes leave out to how many groups DeepSeek-V3 routes.
TEST(ParseCase, TakesRoutingFromTheModelWithTheSameExperts) {
  json text = Seed("moe.json");
  text["model"].update({{"hidden", 7168}, {"heads", 128}, {"kv_heads", 128}, {"layers", 8}});
  text["model"]["experts"].update({{"count", 256}, {"top_k", 8}, {"ffn_hidden", 2048}});
  EXPECT_EQ(Parsed(text).question.model.experts->groups_top_k, 4u);
  text["model"]["experts"]["groups"] = 1;
  EXPECT_EQ(Parsed(text).question.model.experts->groups_top_k, 1u);
  EXPECT_EQ(Parsed(Seed("moe.json")).question.model.experts->groups, 1u);
}

TEST(ParseCase, TakesModulesWithoutAKindAsSelective) {
  json text = Seed("dense.json");
  text["recompute"] = {{"modules", {"mlp"}}};
  const Case parsed = Parsed(text);
  EXPECT_EQ(parsed.question.training.recompute.kind, spec::RecomputeKind::kSelective);
  EXPECT_TRUE(parsed.question.training.recompute.modules.mlp);
  EXPECT_FALSE(parsed.open.recompute);
}

TEST(ParseCase, ReadsWordsAsTablesWriteThem) {
  json text = Seed("dense.json");
  text["precision"] = "BF16";
  text["cluster"]["gpu"] = "NVIDIA H100 80GB HBM3";
  text["model"]["sequence_length"] = nullptr;
  const Case parsed = Parsed(text);
  EXPECT_EQ(parsed.question.training.precision, spec::Precision::kBf16);
  EXPECT_EQ(parsed.question.cluster.device.name, "h100-sxm");
  EXPECT_THAT(parsed.assumed, Contains("model.sequence_length = 4096"));
}

TEST(AnswerCase, AnswersEveryLineWithOneLine) {
  for (const std::string line : {"", "[]", "{", "{\"case\":\"a\"}", "null", "{\"case\":7}"}) {
    const json answer = json::parse(AnswerCase(line, Evaluate, Band));
    EXPECT_TRUE(answer.contains("error")) << line;
  }
  EXPECT_EQ(json::parse(AnswerCase("{\"case\":\"a\"}", Evaluate, Band))["case"], "a");
  const json answer = json::parse(AnswerCase(Seed("dense.json").dump(), Evaluate, Band));
  EXPECT_EQ(answer["case"], "dense");
  EXPECT_DOUBLE_EQ(answer["step_seconds"], 1.8);
  EXPECT_DOUBLE_EQ(answer["step_seconds_high"], 1.98);
  EXPECT_EQ(answer["peak_memory_bytes"], int64_t{1} << 30);
  EXPECT_EQ(answer["stage_memory_bytes"].size(), 2u);
  EXPECT_EQ(answer["breakdown"]["memory_bytes"]["weights"], int64_t{1} << 30);
}

TEST(AnswerCase, ReportsUnknownKeysWithTheNearest) {
  json text = Seed("dense.json");
  text["layout"]["tensr"] = 4;
  const json answer = json::parse(AnswerCase(text.dump(), Evaluate, Band));
  EXPECT_FALSE(answer.contains("error"));
  EXPECT_EQ(answer["unknown_keys"][0], "layout.tensr (did you mean 'tensor'?)");
}

TEST(AnswerCase, NamesTheRuleThatALayoutBreaks) {
  json text = Seed("dense.json");
  text["model"]["heads"] = 33;
  text["model"]["kv_heads"] = 33;
  const json answer = json::parse(AnswerCase(text.dump(), Evaluate, Band));
  EXPECT_THAT(answer["error"].get<std::string>(), HasSubstr("tensor 2 does not divide the 33"));
}

TEST(AnswerCase, DoesNotLookAtNames) {
  json text = Seed("dense.json");
  json first = json::parse(AnswerCase(text.dump(), Evaluate, Band));
  text["case"] = "other";
  text["model"]["name"] = "llama-405b";
  json second = json::parse(AnswerCase(text.dump(), Evaluate, Band));
  first.erase("case");
  second.erase("case");
  EXPECT_EQ(first, second);
}

TEST(DecideOpen, TakesTheFastestThatFits) {
  json text = Seed("dense.json");
  text["batch"]["micro"] = nullptr;
  text["recompute"] = nullptr;
  text["layout"]["virtual_pipeline"] = nullptr;
  text["cluster"]["memory_gib"] = 4.5;
  text["batch"]["global"] = 512;  // 32 a replica
  Case decided = Parsed(text);
  ASSERT_TRUE(DecideOpen(Evaluate, decided).ok());
  // 4 sequences fit without recompute: 1.25 * 0.9; 8 would with: 1.125 * 4/3 * 0.9.
  EXPECT_EQ(decided.question.training.batch.micro, 4u);
  EXPECT_EQ(decided.question.training.recompute.kind, spec::RecomputeKind::kNone);
  EXPECT_GT(decided.question.training.layout.virtual_pipeline, 1u);
  EXPECT_THAT(decided.assumed, Contains("batch.micro = 4 (best that fits)"));
  EXPECT_THAT(decided.assumed, Contains("recompute = none (least that fits)"));
}

// 126 layers in 128 chunks: the first has the embedding and the last the loss in a layer's place.
TEST(DecideOpen, CountsEmbeddingAndLossAsLayersOfChunks) {
  json text = Seed("dense.json");
  text["model"]["layers"] = 30;
  text["layout"].update({{"pipeline", 4}, {"data", 8}, {"virtual_pipeline", nullptr}});
  text["batch"]["global"] = 256;
  const auto deep = [](const Question& question) {
    Evaluation evaluation = Evaluate(question);
    evaluation.step = Seconds(1.0 / question.training.layout.virtual_pipeline);
    return evaluation;
  };
  Case decided = Parsed(text);
  const Status status = DecideOpen(deep, decided);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(decided.question.training.layout.virtual_pipeline, 8u);
}

TEST(DecideOpen, RecomputesWhereNothingElseFits) {
  json text = Seed("dense.json");
  text["recompute"] = nullptr;
  text["cluster"]["memory_gib"] = 0.75;
  Case decided = Parsed(text);
  ASSERT_TRUE(DecideOpen(Evaluate, decided).ok());
  EXPECT_EQ(decided.question.training.recompute.kind, spec::RecomputeKind::kFull);
  text["cluster"]["memory_gib"] = 0.25;  // nothing fits: what needs least
  decided = Parsed(text);
  ASSERT_TRUE(DecideOpen(Evaluate, decided).ok());
  EXPECT_EQ(decided.question.training.recompute.kind, spec::RecomputeKind::kFull);
  EXPECT_THAT(decided.assumed, Contains(HasSubstr("nothing fits")).Times(0));
}

// Each candidate then has a batch of its own, so that the shortest step is the smallest batch's.
TEST(DecideOpen, TakesTheMostTokensASecondWhereNoBatchIsSaid) {
  json text = Seed("dense.json");
  text["batch"] = {{"global", nullptr}, {"micro", nullptr}};
  text["cluster"]["memory_gib"] = 40;  // 32 sequences fit
  Case decided = Parsed(text);
  const auto evaluate = [](const Question& question) {
    Evaluation evaluation = Evaluate(question);
    evaluation.step = Seconds(1 + question.training.batch.micro);
    return evaluation;
  };
  ASSERT_TRUE(DecideOpen(evaluate, decided).ok());
  EXPECT_EQ(decided.question.training.batch.micro, 32u);
}

TEST(DecideOpen, LeavesRoomWhereItCan) {
  json text = Seed("dense.json");
  text["batch"] = {{"global", 512}, {"micro", nullptr}};
  text["cluster"]["memory_gib"] = 4.1;  // 4 sequences fill 97.6 % of it
  Case decided = Parsed(text);
  ASSERT_TRUE(DecideOpen(Evaluate, decided).ok());
  EXPECT_EQ(decided.question.training.batch.micro, 2u);
  text["cluster"]["memory_gib"] = 1.01;  // one sequence fills 99 %: nothing smaller is left
  decided = Parsed(text);
  ASSERT_TRUE(DecideOpen(Evaluate, decided).ok());
  EXPECT_EQ(decided.question.training.batch.micro, 1u);
  EXPECT_THAT(decided.assumed, Contains("batch.micro = 1 (best that fits)"));
}

// Of NeMo's launcher the optimizer's precision is a recipe's own: two bytes where four don't fit.
TEST(DecideOpen, TakesShortMomentsWhereApexNeedsThem) {
  json text = Seed("dense.json");
  text["software"] = {{"framework", "nemo"}, {"release", "v24.11.1"}};
  const auto evaluate = [](const Question& question) {
    Evaluation evaluation = Evaluate(question);
    evaluation.fits = question.training.software.moment_bytes == 2;
    return evaluation;
  };
  Case decided = Parsed(text);
  ASSERT_TRUE(DecideOpen(evaluate, decided).ok());
  EXPECT_EQ(decided.question.training.software.moment_bytes, 2u);
  decided = Parsed(text);
  ASSERT_TRUE(DecideOpen(Evaluate, decided).ok());
  EXPECT_EQ(decided.question.training.software.moment_bytes, 4u);
  text["software"]["framework"] = "megatron-core";
  decided = Parsed(text);
  ASSERT_TRUE(DecideOpen(evaluate, decided).ok());
  EXPECT_EQ(decided.question.training.software.moment_bytes, 4u);
}

// A run whose layout and batch are said did fit: nothing but recompute is open.
TEST(DecideOpen, RecomputesNoMoreThanARunThatFittedHadTo) {
  json text = Seed("dense.json");
  text["batch"] = {{"global", 512}, {"micro", 4}};
  text["recompute"] = nullptr;
  text["cluster"]["memory_gib"] = 4.1;  // filled to 97.6 %
  Case decided = Parsed(text);
  ASSERT_TRUE(DecideOpen(Evaluate, decided).ok());
  EXPECT_EQ(decided.question.training.recompute.kind, spec::RecomputeKind::kNone);
}

TEST(DecideOpen, FillsALayoutThatIsNotSaid) {
  Case decided = Parsed(Seed("gaps.json"));
  const Status status = DecideOpen(Evaluate, decided);
  ASSERT_TRUE(status.ok()) << status;
  const Status legal =
      CheckTraining(decided.question.model, decided.question.cluster, decided.question.training);
  EXPECT_TRUE(legal.ok()) << legal;
  EXPECT_EQ(decided.question.training.layout.devices(), 16u);
}

TEST(DecideOpen, RefusesWhatNoChoiceMakesLegal) {
  json text = Seed("gaps.json");
  text["layout"] = {{"context", 3}};
  Case decided = Parsed(text);
  EXPECT_FALSE(DecideOpen(Evaluate, decided).ok());
}

}  // namespace
}  // namespace longhaul::planner
