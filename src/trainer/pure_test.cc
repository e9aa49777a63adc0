// The pieces that don't need libtorch: configuration, schedule, parameters, optimizer, drawing.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "trainer/config.h"
#include "trainer/model/blas_kernels.h"
#include "trainer/model/optimizer.h"
#include "trainer/model/parameters.h"
#include "trainer/model/schedule.h"
#include "trainer/worker/finish.h"

namespace longhaul::trainer {
namespace {

TEST(TrainerConfig, IsTheJobsJsonWithDirectories) {
  const auto config = ParseTrainerConfig(
      R"({"name":"x","model":{"kind":"gpt","layers":2,"hidden":64,"heads":2,"sequence":32},
          "train":{"steps":7,"learning_rate":0.01,"seed":9},"resources":{"micro_batch":"auto"},
          "data_directory":"/d","run_directory":"/r","record_samples":true})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model.layers, 2u);
  EXPECT_EQ(config->train.steps, 7u);
  EXPECT_EQ(config->train.seed, 9u);
  EXPECT_EQ(config->micro_batch, 0u);
  EXPECT_TRUE(config->record_samples);
}

TEST(TrainerConfig, ReadsWhatTheSpecWrites) {
  spec::JobSpec job;
  job.model.layers = 3;
  job.resources.micro_batch = 4;
  std::string json = spec::ToJson(job);
  json.insert(1, R"("data_directory":"/d",)");
  const auto config = ParseTrainerConfig(json);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model.layers, 3u);
  EXPECT_EQ(config->micro_batch, 4u);
}

TEST(TrainerConfig, ReadsWhichStepItBeginsWith) {
  const auto config = ParseTrainerConfig(
      R"({"data_directory":"/d","from":{"folder":"/runs/a/checkpoints","step":30,"attempt":2}})");
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_TRUE(config->from.has_value());
  EXPECT_EQ(config->from->folder, "/runs/a/checkpoints");
  EXPECT_EQ(config->from->step, 30u);
  EXPECT_EQ(config->from->attempt, 2u);
}

TEST(TrainerConfig, NamesTheKeyThatIsWrong) {
  const struct {
    const char* json;
    const char* names;
  } kRows[] = {
      {"[]", "not a JSON object"},
      {"{", "not a JSON object"},
      {"{}", "trainer.data_directory"},
      {R"({"model":{"layers":0}})", "model.layers"},
      {R"({"model":{"hidden":130,"heads":4}})", "model.hidden"},
      {R"({"model":7})", "model is not an object"},
      {R"({"train":{"steps":-1}})", "train.steps"},
      {R"({"train":{"learning_rate":"fast"}})", "train.learning_rate"},
      {R"({"data_directory":"/d","record_samples":true})", "run_directory"},
      {R"({"data_directory":"/d","from":{"step":3}})", "from.folder"},
      {R"({"data_directory":"/d","from":"/runs/a"})", "from is not an object"},
  };
  for (const auto& row : kRows) {
    const auto config = ParseTrainerConfig(row.json);
    EXPECT_EQ(config.status().code(), Code::kInvalidArgument) << row.json;
    EXPECT_NE(config.status().message().find(row.names), std::string::npos) << config.status();
  }
}

TEST(LearningRate, WarmsUpThenFallsAsACosine) {
  spec::TrainSpec train;
  train.steps = 110;
  train.warmup_steps = 10;
  train.learning_rate = 1;
  train.final_learning_rate_ratio = 0.1;
  EXPECT_DOUBLE_EQ(LearningRate(train, 1), 0.1);
  EXPECT_DOUBLE_EQ(LearningRate(train, 10), 1);
  EXPECT_NEAR(LearningRate(train, 60), 0.55, 1e-12);
  EXPECT_NEAR(LearningRate(train, 110), 0.1, 1e-12);
  EXPECT_NEAR(LearningRate(train, 500), 0.1, 1e-12);
  train.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(LearningRate(train, 1), 1);
  train.steps = 1;
  EXPECT_DOUBLE_EQ(LearningRate(train, 1), 1);
}

TEST(ParameterTable, CountsWhatTheModelHas) {
  spec::ModelSpec model;  // 4 x 128, sequence 128
  const ParameterTable table(model);
  // 12 h^2 + 13 h a layer, five tables of the vocabulary, positions, last norm.
  EXPECT_EQ(table.count(), 4u * (12 * 128 * 128 + 13 * 128) + 5 * 257 * 128 + 128 * 128 + 2 * 128);
  std::set<std::string> names;
  size_t end = 0;
  for (const Parameter& parameter : table.parameters()) {
    EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
    EXPECT_GE(parameter.offset, end);
    EXPECT_EQ(parameter.offset % kParameterAlignment, 0u);
    end = parameter.offset + parameter.count;
  }
  EXPECT_LE(end, table.floats());
}

TEST(Initialise, DependsOnSeedAndNameAlone) {
  spec::ModelSpec small;
  small.layers = 1;
  spec::ModelSpec large = small;
  large.layers = 2;
  const ParameterTable a(small);
  const ParameterTable b(large);
  std::vector<float> of_a(a.floats());
  std::vector<float> of_b(b.floats());
  Initialise(a, 5, of_a);
  Initialise(b, 5, of_b);
  const char* name = "model.output.weight";  // at different places in the two
  EXPECT_EQ(of_a[a.Find(name).offset + 7], of_b[b.Find(name).offset + 7]);
  double sum = 0;
  double squares = 0;
  const Parameter& qkv = a.Find("model.layers.0.attention.qkv.weight");
  for (size_t i = 0; i < qkv.count; ++i) {
    const double value = of_a[qkv.offset + i];
    sum += value;
    squares += value * value;
  }
  const double count = static_cast<double>(qkv.count);
  EXPECT_NEAR(sum / count, 0, 4 * qkv.deviation / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count), qkv.deviation, 0.02 * qkv.deviation);
}

TEST(ModelFlops, AgreesWithTheSumByHand) {
  spec::ModelSpec model;
  model.layers = 1;
  model.hidden = 2;
  model.heads = 1;
  model.sequence = 4;
  // Matrices 12 * 4 + 2 * 257 = 562; 6 * 562 + 12 * 2 * 4 / 2 = 3420 a token.
  EXPECT_DOUBLE_EQ(ModelFlops(model, 10).count(), 34'200);
}

TEST(BlasKernels, OfAnUnknownProcessorAreReplacedByThoseOfItsVectorUnits) {
  const VectorUnits none, avx2{.avx2 = true}, avx512{.avx2 = true, .avx512 = true};
  EXPECT_EQ(BetterBlasKernels("Prescott", avx512), "SkylakeX");
  EXPECT_EQ(BetterBlasKernels("Prescott", avx2), "Haswell");
  EXPECT_EQ(BetterBlasKernels("NEHALEM", avx2), "Haswell");
  EXPECT_EQ(BetterBlasKernels("Prescott", none), "");
  // What OpenBLAS has recognised stays, and so does another BLAS.
  for (const char* known : {"Haswell", "SkylakeX", "Zen", "Cooperlake", "SapphireRapids", ""}) {
    EXPECT_EQ(BetterBlasKernels(known, avx512), "") << known;
  }
}

TEST(Optimizer, DecaysMatricesOnlyAndClipsByTheGlobalNorm) {
  spec::ModelSpec model;
  model.layers = 1;
  model.hidden = 4;
  model.heads = 1;
  model.sequence = 4;
  const ParameterTable table(model);
  spec::TrainSpec train;
  train.warmup_steps = 0;
  train.learning_rate = 0.1;
  train.weight_decay = 0.5;
  Optimizer optimizer(table, train);
  std::fill(optimizer.weights().begin(), optimizer.weights().end(), 1.0F);
  std::vector<float> gradients(table.floats(), 0.0F);
  optimizer.Step(1, gradients, std::sqrt(SquaredNorm(gradients)));
  const auto first = [&](const char* name) { return optimizer.weights()[table.Find(name).offset]; };
  EXPECT_FLOAT_EQ(first("model.output.weight"), 0.95F);
  EXPECT_FLOAT_EQ(first("model.layers.0.mlp.up.weight"), 0.95F);
  EXPECT_EQ(first("model.layers.0.mlp.up.bias"), 1.0F);
  EXPECT_EQ(first("model.norm.weight"), 1.0F);
  EXPECT_EQ(first("model.embedding.position.weight"), 1.0F);

  gradients[0] = 3;
  gradients[1] = 4;
  EXPECT_DOUBLE_EQ(std::sqrt(SquaredNorm(gradients)), 5);
  optimizer.Step(2, gradients, 5);
  EXPECT_NEAR(optimizer.first_moments()[0], 0.1 * 3 / 5, 1e-6);
}

TEST(Draw, FollowsTheWeights) {
  const std::vector<float> logits = {0, std::log(3.0F), -100};
  EXPECT_EQ(Draw(logits, 0, 0.9), 1u);
  EXPECT_EQ(Draw(logits, 1, 0.24), 0u);
  EXPECT_EQ(Draw(logits, 1, 0.26), 1u);
  EXPECT_EQ(Draw(logits, 1, 0.999999), 1u);
}

}  // namespace
}  // namespace longhaul::trainer
