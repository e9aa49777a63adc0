#include "planner/run.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planner/error_band.h"
#include "planner/evaluate.h"

namespace longhaul::planner {
namespace {

// GPT-3 175B as Megatron-LM ran it: tensor 8, pipeline 16, data 8, micro-batch 1 (SC 21, table 1
// and README of v2.5).
Question Gpt175B() {
  Question question;
  spec::Model& model = question.model;
  model.layers = 96;
  model.hidden = 12288;
  model.ffn_hidden = 4 * 12288;
  model.heads = 96;
  model.kv_heads = 96;
  model.head_dim = 128;
  model.vocabulary = 51200;
  model.sequence_length = 2048;
  model.tied_embeddings = true;
  model.bias = true;
  model.qkv_bias = true;
  model.dropout = true;
  question.cluster.device = *spec::FindDevice("a100-80gb-sxm");
  question.cluster.devices = 1024;
  question.cluster.network.per_device = BytesPerSecond(25e9);
  spec::Training& training = question.training;
  training.layout.tensor = 8;
  training.layout.pipeline = 16;
  training.layout.data = 8;
  training.batch = {1536, 1};
  training.recompute.kind = spec::RecomputeKind::kFull;
  training.precision = spec::Precision::kFp16;
  training.software.framework = "megatron-lm";
  training.software.release = "v2.5";
  training.software.flash_attention = false;
  training.software.loss_fusion = false;
  training.software.overlap_gradient = false;
  training.software.overlap_parameter = false;
  training.software.gradient_bytes = 2;
  return question;
}

Evaluation Answer(const Question& question) {
  Evaluator evaluator(question.model, question.cluster, question.training.software);
  return evaluator.Evaluate(question.training);
}

// "34 days" for 300e9 tokens (SC 21, section 5.1), which counts no failures.
TEST(Run, Gpt175BTakesThePublishedDays) {
  const Question question = Gpt175B();
  const Evaluation evaluation = Answer(question);
  RunFacts facts;
  facts.tokens = 300e9;
  facts.device_hours_to_failure = 1e9;
  facts.checkpoint_cost = Seconds(0);
  const StepBand band = ErrorBand(question, 0, evaluation.step);
  const auto run = EstimateRun(question, evaluation, band, facts);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->steps, std::ceil(300e9 / (1536.0 * 2048)));
  EXPECT_NEAR(run->days.expected / 34, 1, 0.05);
  EXPECT_LT(run->days.low, 34);
  EXPECT_GT(run->days.high, 34);
}

// Worked by hand: 30 s each sqrt(2 x 30 x 10,000) = 774.6 s; (1 - 30/804.6) / (1 + (387.3 + 600) /
// 10,000).
TEST(Run, AvailabilityAgreesWithYoungsInterval) {
  EXPECT_NEAR(Availability(Seconds(30), Seconds(600), Seconds(10'000)),
              (1 - 30 / 804.597) / (1 + 0.0987298), 1e-6);
  EXPECT_NEAR(Availability(Seconds(0), Seconds(0), Seconds(1e12)), 1, 1e-4);
}

TEST(Run, FailuresCostDaysAndRangesAreInOrder) {
  const Question question = Gpt175B();
  const Evaluation evaluation = Answer(question);
  RunFacts facts;
  facts.tokens = 300e9;
  const StepBand band = ErrorBand(question, 3, evaluation.step);
  const auto rare = EstimateRun(question, evaluation, band, facts);
  facts.device_hours_to_failure /= 10;
  const auto often = EstimateRun(question, evaluation, band, facts);
  ASSERT_TRUE(rare.ok() && often.ok());
  EXPECT_GT(often->days.expected, rare->days.expected);
  EXPECT_LT(often->checkpoint_interval, rare->checkpoint_interval);
  // 1,024 devices for 34 days are 836,000 device hours: 16.5 failures at one in 50,700.
  EXPECT_NEAR(rare->failures, 16.5, 1.5);
  for (const Range& range : {rare->availability, rare->days, rare->dollars,
                             rare->energy_megawatt_hours, rare->device_hours}) {
    EXPECT_LT(range.low, range.expected);
    EXPECT_LT(range.expected, range.high);
  }
}

TEST(Run, RefusesFactsThatCannotBe) {
  const Question question = Gpt175B();
  const Evaluation evaluation = Answer(question);
  const StepBand band = ErrorBand(question, 0, evaluation.step);
  RunFacts facts;
  EXPECT_EQ(EstimateRun(question, evaluation, band, facts).status().code(), Code::kInvalidArgument);
  facts.tokens = 1e9;
  facts.facility_overhead = std::nan("");
  EXPECT_NE(
      EstimateRun(question, evaluation, band, facts).status().message().find("facility_overhead"),
      std::string::npos);
}

TEST(ErrorBand, WidensForWhatIsAssumedAndUnknown) {
  const Question question = Gpt175B();
  const double known = BandWidth(question, 0);
  EXPECT_GT(BandWidth(question, 5), known);
  Question other = question;
  other.training.software.framework = "something new";
  EXPECT_GT(BandWidth(other, 0), known);
  other = question;
  other.cluster.device = *spec::FindDevice("mi300x");
  EXPECT_GT(BandWidth(other, 0), known);
  other = question;
  other.cluster.devices = 65'536;
  EXPECT_GT(BandWidth(other, 0), known);
}

}  // namespace
}  // namespace longhaul::planner
