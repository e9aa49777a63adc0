#include "profiler/across/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "profiler/across/schedule_play.h"

namespace longhaul::profiler {
namespace {

PipelineShape Shape(Schedule schedule, int stages, int micro_batches) {
  const bool two = schedule == Schedule::kZeroBubbleV || schedule == Schedule::kDualPipe;
  return {schedule, stages, micro_batches, two || schedule == Schedule::kInterleaved ? 2 : 1};
}

std::string Name(const PipelineShape& shape) {
  return std::string(ToString(shape.schedule)) + ", " + std::to_string(shape.stages) + " stages, " +
         std::to_string(shape.micro_batches) + " micro-batches";
}

// Every defined shape of few stages, with few micro-batches and many.
std::vector<PipelineShape> AllShapes() {
  std::vector<PipelineShape> shapes;
  for (size_t schedule = 0; schedule < kSchedules; ++schedule) {
    for (int stages = 1; stages <= 8; ++stages) {
      for (int micro_batches = 1; micro_batches <= 3 * stages + 1; ++micro_batches) {
        const PipelineShape shape = Shape(static_cast<Schedule>(schedule), stages, micro_batches);
        if (IsDefined(shape)) shapes.push_back(shape);
      }
    }
  }
  return shapes;
}

TEST(Schedule, RunsEachMicroBatchOnceThroughEachChunk) {
  for (const PipelineShape& shape : AllShapes()) {
    SCOPED_TRACE(Name(shape));
    const int wanted =
        shape.schedule == Schedule::kDualPipe ? shape.micro_batches / 2 : shape.micro_batches;
    for (int stage = 0; stage < shape.stages; ++stage) {
      std::map<std::pair<Pass::Kind, int>, int> count;
      std::map<int, int> last;
      int weights = 0;
      for (const Pass& pass : PassesOf(shape, stage)) {
        ++count[{pass.kind, pass.chunk}];
        if (pass.kind == Pass::Kind::kWeights) ++weights;
        if (pass.last) ++last[pass.chunk];
      }
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        const auto of = [&](Pass::Kind kind) { return count[{kind, chunk}]; };
        EXPECT_EQ(of(Pass::Kind::kForward), wanted);
        EXPECT_EQ(of(Pass::Kind::kBackward) + of(Pass::Kind::kInputs), wanted);
        EXPECT_EQ(of(Pass::Kind::kWeights), of(Pass::Kind::kInputs));
        EXPECT_EQ(last[chunk], 1);
      }
      EXPECT_EQ(weights, WeightPasses(shape, stage));
    }
  }
}

// Playing would not end, and says so, if a stage waited for what never comes.
TEST(Schedule, IsNeverStuckAndNeverIdlesLessThanNothing) {
  for (const PipelineShape& shape : AllShapes()) {
    EXPECT_GE(IdleOf(shape, {1, 1.3, 0.7}), 0) << Name(shape);
    if (shape.stages == 1) {
      EXPECT_NEAR(IdleOf(shape, {1, 1.3, 0.7}), 0, 1e-9) << Name(shape);
    }
  }
}

// The formulas that across/schedule_play.h cites.
TEST(Schedule, IdlesAsPublished) {
  for (const auto& [forward, inputs, weights] :
       {std::array{1.0, 1.0, 1.0}, {1.0, 1.4, 0.6}, {1.0, 0.9, 0.9}, {0.8, 1.1, 0.7}}) {
    const PassTimes times = {forward, inputs, weights};
    const double all = forward + inputs + weights;
    for (const int stages : {2, 4, 6, 8}) {
      SCOPED_TRACE(std::to_string(forward) + " " + std::to_string(inputs) + " " +
                   std::to_string(weights) + ", " + std::to_string(stages) + " stages");
      const auto idle = [&](Schedule schedule) {
        return IdleOf(Shape(schedule, stages, 4 * stages), times);
      };
      EXPECT_NEAR(idle(Schedule::kOneForwardOneBackward), (stages - 1) * all, 1e-9);
      EXPECT_NEAR(idle(Schedule::kInterleaved), (stages - 1) * all,
                  1e-9);  // of chunks half as long
      EXPECT_NEAR(idle(Schedule::kZeroBubbleH1), (stages - 1) * (all - 2 * weights), 1e-9);
      EXPECT_NEAR(idle(Schedule::kZeroBubbleH2), (stages - 1) * (all - 3 * weights), 1e-9);
      if (forward == inputs && inputs == weights) {
        EXPECT_NEAR(idle(Schedule::kZeroBubbleV), 0, 1e-9);
        const double backward = inputs + weights;
        EXPECT_NEAR(idle(Schedule::kDualPipe),
                    (stages / 2 - 1) * (forward + backward + backward - 3 * weights), 1e-9);
      }
    }
  }
}

TEST(Schedule, IdlesTheSameWithMoreMicroBatchesThanItIsPlayedWith) {
  for (size_t i = 0; i < kSchedules; ++i) {
    const auto schedule = static_cast<Schedule>(i);
    const PassTimes times = {1, 1.2, 0.8};
    EXPECT_NEAR(IdleOf(Shape(schedule, 4, 12), times), IdleOf(Shape(schedule, 4, 100), times), 1e-9)
        << ToString(schedule);
  }
}

// Qi et al., ICLR 2024, table 2, count micro-batches whose activations a stage holds: p and 2 p
// - 1.
TEST(Schedule, HoldsAsManyMicroBatchesAsPublished) {
  for (const int stages : {2, 3, 4, 8}) {
    for (const auto& [schedule, most] :
         {std::pair(Schedule::kZeroBubbleH1, stages), {Schedule::kZeroBubbleH2, 2 * stages - 1}}) {
      for (int stage = 0; stage < stages; ++stage) {
        int held = 0, highest = 0;
        for (const Pass& pass : PassesOf(Shape(schedule, stages, 4 * stages), stage)) {
          if (pass.kind == Pass::Kind::kForward) highest = std::max(highest, ++held);
          if (pass.kind == Pass::Kind::kWeights) --held;
        }
        EXPECT_EQ(highest, most) << ToString(schedule) << " stage " << stage << " of " << stages;
      }
    }
  }
}

TEST(Schedule, FindsThePlaceOfEachChunkAndBack) {
  for (size_t i = 0; i < kSchedules; ++i) {
    const PipelineShape shape = Shape(static_cast<Schedule>(i), 6, 12);
    for (int stage = 0; stage < shape.stages; ++stage) {
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        const ModelPlace place = PlaceOf(shape, stage, chunk);
        EXPECT_GE(place.at, 0);
        EXPECT_LT(place.at, LineLength(shape));
        EXPECT_EQ(StageAt(shape, place), stage) << ToString(shape.schedule);
        EXPECT_EQ(ChunkAt(shape, place), chunk) << ToString(shape.schedule);
      }
    }
  }
  // ZB-V's first stage has both ends of the model; DualPipe's has an end of either direction.
  EXPECT_EQ(PlaceOf(Shape(Schedule::kZeroBubbleV, 4, 8), 0, 1).at, 7);
  EXPECT_EQ(PlaceOf(Shape(Schedule::kDualPipe, 4, 8), 0, 1).at, 3);
}

TEST(Schedule, IsKnownByItsNameInCapitalsOrNot) {
  EXPECT_EQ(ParseSchedule("zb-h2"), Schedule::kZeroBubbleH2);
  EXPECT_EQ(ParseSchedule("DualPipe"), Schedule::kDualPipe);
  EXPECT_EQ(ParseSchedule("1f1b"), Schedule::kOneForwardOneBackward);
  EXPECT_EQ(ParseSchedule("zb-h3"), std::nullopt);
  EXPECT_EQ(ParseSchedule(""), std::nullopt);
}

}  // namespace
}  // namespace longhaul::profiler
