#include "planner/local/parts/shared_cores.h"

#include <gtest/gtest.h>

#include <string>

#include "planner/local/parts/pipeline_order.h"

namespace longhaul::planner {
namespace {

TEST(OneForwardOneBackward, IsThePublishedOrder) {
  const auto text = [](uint32_t stages, uint32_t stage, uint32_t micro_batches) {
    std::string order;
    for (const PipelineAction& action : OneForwardOneBackward(stages, stage, micro_batches)) {
      order += action.kind == PipelineAction::Kind::kForward ? "F" : "B";
      order += std::to_string(action.micro_batch);
    }
    return order;
  };
  EXPECT_EQ(text(2, 0, 3), "F0F1B0F2B1B2");
  EXPECT_EQ(text(2, 1, 3), "F0B0F1B1F2B2");
  EXPECT_EQ(text(4, 0, 2), "F0F1B0B1");
  EXPECT_EQ(text(1, 0, 2), "F0B0F1B1");
}

TEST(PlayThrough, SharesTheCoresAmongThoseThatCompute) {
  const std::vector<CoreTask> second = {{CoreTask::Kind::kCompute, 1, 0}};
  EXPECT_DOUBLE_EQ(PlayThrough(2, {second, second}, {}), 1);
  EXPECT_DOUBLE_EQ(PlayThrough(2, {second, second, second}, {}), 1.5);
  // The short ones end at 0.5 x 4 / 2; then two are left for the rest of a second.
  const std::vector<CoreTask> half = {{CoreTask::Kind::kCompute, 0.5, 0}};
  EXPECT_DOUBLE_EQ(PlayThrough(2, {second, half, half, second}, {}), 1.5);
}

TEST(PlayThrough, WaitsForTheLastOfAGroup) {
  using Kind = CoreTask::Kind;
  const std::vector<CoreTask> quick = {{Kind::kCompute, 1, 0}, {Kind::kMeet, 0.25, 0}};
  const std::vector<CoreTask> slow = {{Kind::kCompute, 3, 0}, {Kind::kMeet, 0.25, 0}};
  EXPECT_DOUBLE_EQ(PlayThrough(4, {quick, slow}, {{0, 1}}), 3.25);
  // A third that uses the core meanwhile costs nothing where there is one.
  const std::vector<CoreTask> other = {{Kind::kCompute, 2, 0}};
  EXPECT_DOUBLE_EQ(PlayThrough(2, {quick, slow, other}, {{0, 1}}), 3.25 + 0.5);
}

// Two stages of forward 1 and backward 2 with four micro-batches: (m + p - 1) (F + B).
TEST(PlayThrough, HasThePipelinesBubble) {
  using Kind = CoreTask::Kind;
  std::vector<std::vector<CoreTask>> programs(2);
  for (uint32_t stage = 0; stage < 2; ++stage) {
    const uint32_t other = 1 - stage;
    for (const PipelineAction& action : OneForwardOneBackward(2, stage, 4)) {
      const bool forward = action.kind == PipelineAction::Kind::kForward;
      const bool receives = forward == (stage == 1);
      if (receives) programs[stage].push_back({Kind::kReceive, 0, other});
      programs[stage].push_back({Kind::kCompute, forward ? 1.0 : 2.0, 0});
      if (!receives) programs[stage].push_back({Kind::kSend, 0, other});
    }
  }
  EXPECT_DOUBLE_EQ(PlayThrough(2, programs, {}), 15);
  // On one core there is nothing to wait for.
  EXPECT_DOUBLE_EQ(PlayThrough(1, programs, {}), 24);
}

}  // namespace
}  // namespace longhaul::planner
