#include "spec/job/step_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::spec {
namespace {

using testing::HasSubstr;

StepInLine Find(const char* pattern, std::string_view line) {
  const auto parsed = StepPattern::Parse(pattern);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->Find(line).value_or(StepInLine()) : StepInLine();
}

TEST(StepPattern, EachPresetReadsWhatItsProgramPrints) {
  const struct {
    const char* preset;
    const char* line;
    uint64_t step;
    uint64_t total;
    std::optional<double> loss;
  } kRows[] = {
      {"nanogpt", "iter 10: loss 3.1234, time 123.45ms, mfu 3.21%", 10, 0, 3.1234},
      {"nanogpt", "iter 0: loss 10.9, time 45678.90ms, mfu -100.00%", 0, 0, 10.9},
      {"lightning",
       "Epoch 0:  10%|█         | 10/100 [00:01<00:09, 9.80it/s, v_num=0, train_loss=0.123]", 10, 0,
       0.123},
      {"lightning", "Epoch 3:  45%|████▌     | 45/100 [00:10<00:12,  4.5it/s, loss=1.5, v_num=1]",
       345, 0, 1.5},
      {"lightning", "Epoch 0:   0%|          | 0/100 [00:00<?, ?it/s]", 0, 0, std::nullopt},
      {"huggingface", " 10%|█         | 10/100 [00:10<01:30,  1.00s/it]", 10, 100, std::nullopt},
      {"huggingface", "100%|##########| 100/100 [00:10<00:00, 10.0it/s]", 100, 100, std::nullopt},
      {"torchtitan",
       "[rank0]:[titan] 2025-01-01 00:00:00,000 - root - INFO - step: 10  loss:  7.2713  memory: 1",
       10, 0, 7.2713},
      {"megatron",
       " iteration       10/     100 | consumed samples: 160 | elapsed time per iteration (ms): 9 "
       "| "
       "lm loss: 1.012000E+01 | loss scale: 1.0 |",
       10, 100, 10.12},
      {"deepspeed",
       "[2025-01-01 00:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, "
       "lr=[1e-05], mom=[(0.9, 0.999)]",
       10, 0, std::nullopt},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.line);
    const StepInLine found = Find(row.preset, row.line);
    EXPECT_EQ(found.step, row.step);
    EXPECT_EQ(found.total, row.total);
    EXPECT_EQ(found.loss, row.loss);
  }
}

TEST(StepPattern, EveryPresetFindsTheStepInItsExample) {
  for (const StepPreset& preset : StepPresets()) {
    EXPECT_EQ(Find(preset.name, preset.example).step, 10u) << preset.name;
  }
}

TEST(StepPattern, PresetsPassOverOtherLines) {
  const struct {
    const char* preset;
    const char* line;
  } kRows[] = {
      {"nanogpt", "step 250: train loss 1.9, val loss 2.0"},
      {"lightning", "Validation DataLoader 0:  45%|████▌     | 45/100 [00:10<00:12, 4.50it/s]"},
      {"huggingface", "Loading checkpoint shards: 100%|##########| 2/2 [00:01<00:00, 1.5it/s]"},
      {"torchtitan", "step: loss:"},
      {"megatron", "iteration 10 of 100"},
  };
  for (const auto& row : kRows) {
    EXPECT_FALSE(StepPattern::Parse(row.preset)->Find(row.line).has_value()) << row.line;
  }
}

TEST(StepPattern, ALossOnALineOfItsOwnHasNoStep) {
  const StepInLine found =
      Find("huggingface", "{'loss': 2.5, 'grad_norm': 1.25, 'learning_rate': 4.5e-05}");
  EXPECT_FALSE(found.step.has_value());
  EXPECT_EQ(found.loss, 2.5);
}

TEST(StepPattern, WhatNoRunCanHaveIsNotFound) {
  const auto pattern = StepPattern::Parse(R"(step (?P<step>\d+)(?:/(?P<total>\d+))?(?P<loss>.*))");
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  for (const char* line : {"step 99999999999999999999999", "step 5/4", "step 5/0", "steps"}) {
    EXPECT_FALSE(pattern->Find(line).has_value()) << line;
  }
  EXPECT_FALSE(pattern->Find("step 5nan")->loss.has_value());
  EXPECT_EQ(pattern->Find("step 5 2.5")->loss.has_value(), false) << "not a number: ' 2.5'";
  EXPECT_EQ(pattern->Find("step 5-2.5")->loss, -2.5);
  EXPECT_FALSE(pattern->Find("step 5-" + std::string(5000, '1'))->loss.has_value());
}

TEST(StepPattern, SaysWhatIsWrongWithAnExpression) {
  const struct {
    const char* text;
    const char* message;
  } kRows[] = {
      {"", "is not a preset"},
      {"nanogtp",
       "is not a preset (nanogpt, lightning, huggingface, torchtitan, megatron, deepspeed)"},
      {R"(step (\d+))", "has no group named step: write (?P<step>\\d+)"},
      {R"(step (?P<step>\d+)", "is not a regular expression: missing )"},
      {R"((?P<step>\d+) (?P<epochs>\d+))", "group named 'epochs'; the names are step, total"},
      {R"(epoch (?P<epoch>\d+) step (?P<step>\d+))", "needs one named total"},
      {R"((?P<step>\d+)((((((\d{1000}){1000}){1000}){1000}){1000}){1000}))",
       "is not a regular expression"},
  };
  for (const auto& row : kRows) {
    const auto parsed = StepPattern::Parse(row.text);
    ASSERT_FALSE(parsed.ok()) << row.text;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(row.message));
  }
  EXPECT_FALSE(StepPattern::Parse("(?P<step>.)" + std::string(1000, 'x')).ok());
}

// A pattern that backtracks forever in other libraries.
TEST(StepPattern, AHostileLineTakesNoLonger) {
  const auto pattern = StepPattern::Parse(R"((a*)*(a*)*b(?P<step>\d+))");
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  EXPECT_FALSE(pattern->Find(std::string(4096, 'a')).has_value());
}

}  // namespace
}  // namespace longhaul::spec
