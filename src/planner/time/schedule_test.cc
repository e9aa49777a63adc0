#include "planner/time/schedule.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "planner/time/simulate.h"

namespace longhaul::planner {
namespace {

using spec::PipelineSchedule;

// Equal stages with F = 1, B = 1, W = 1.
std::vector<StageTime> Equal(uint32_t count) { return std::vector<StageTime>(count, {1, 2, 1}); }

PipelineShape Shape(PipelineSchedule schedule, uint32_t chunks, double micro_batches) {
  PipelineShape shape;
  shape.schedule = schedule;
  shape.virtual_pipeline = chunks;
  shape.micro_batches = micro_batches;
  return shape;
}

// Idle time of a rank, from the papers named in schedule.h: (p-1)(F+B+W), that over v, and
// (p-1)(F+B-W).
TEST(Schedule, HasThePublishedBubbleOnEqualStages) {
  const struct {
    PipelineSchedule schedule;
    uint32_t stages;
    uint32_t chunks;
    double micro_batches;
    double idle;
  } kRows[] = {
      {PipelineSchedule::kGpipe, 4, 1, 8, 9},
      {PipelineSchedule::kOneForwardOneBackward, 4, 1, 8, 9},
      {PipelineSchedule::kOneForwardOneBackward, 8, 1, 32, 21},
      {PipelineSchedule::kOneForwardOneBackward, 4, 2, 8, 4.5},
      {PipelineSchedule::kOneForwardOneBackward, 4, 3, 16, 3},
      {PipelineSchedule::kZeroBubbleH1, 4, 1, 12, 3},
      {PipelineSchedule::kZeroBubbleH1, 8, 1, 32, 7},
  };
  for (const auto& row : kRows) {
    const auto stages = Equal(row.stages);
    const PipelineShape shape = Shape(row.schedule, row.chunks, row.micro_batches);
    const double busy = 3 * row.micro_batches;
    SCOPED_TRACE(testing::Message() << row.stages << " stages, " << row.chunks << " chunks");
    EXPECT_NEAR(SimulatedSeconds(stages, shape), busy + row.idle, 1e-9);
    EXPECT_NEAR(PipelineSeconds(stages, shape).total_s, busy + row.idle, 1e-9);
  }
}

TEST(Schedule, ZeroBubbleVHasAlmostNoneOnEqualPasses) {
  const auto stages = Equal(4);
  const PipelineShape shape = Shape(PipelineSchedule::kZeroBubbleV, 2, 16);
  EXPECT_NEAR(PipelineSeconds(stages, shape).total_s, 48, 1e-9);
  // The greedy order needs up to one chunk's pass a stage for filling.
  EXPECT_LE(SimulatedSeconds(stages, shape), 48 + 3);
  EXPECT_GE(SimulatedSeconds(stages, shape), 48);
}

std::vector<StageTime> Uneven(std::mt19937_64& rng, uint32_t count) {
  std::vector<StageTime> stages(count);
  for (StageTime& stage : stages) {
    const double forward = 1 + static_cast<double>(rng() % 1'000) / 10'000;
    stage = {forward, 2 * forward, forward};
  }
  return stages;
}

TEST(Schedule, ClosedFormIsNearTheSimulationOnUnevenStages) {
  std::mt19937_64 rng(11);
  for (int i = 0; i < 200; ++i) {
    const uint32_t count = 2 + static_cast<uint32_t>(rng() % 7);
    const uint32_t chunks = 1 + static_cast<uint32_t>(rng() % 3);
    const double micro_batches = count * static_cast<double>(2 + rng() % 6);
    const auto stages = Uneven(rng, count);
    PipelineShape shape = Shape(PipelineSchedule::kOneForwardOneBackward, chunks, micro_batches);
    shape.send_s = static_cast<double>(rng() % 100) / 5'000 / chunks;
    shape.exposed_sends = chunks > 1 ? 0.1 : 1;
    const double simulated = SimulatedSeconds(stages, shape);
    const double closed = PipelineSeconds(stages, shape).total_s;
    // Stages that differ by up to a tenth; interleaving absorbs some of that.
    EXPECT_NEAR(closed / simulated, 1, chunks > 1 ? 0.07 : 0.02)
        << count << " stages, " << chunks << " chunks, " << micro_batches << " micro-batches";
  }
}

TEST(Simulation, ContinuesAPeriodAsTheWholeStepRuns) {
  std::mt19937_64 rng(5);
  for (int i = 0; i < 20; ++i) {
    const uint32_t count = 2 + static_cast<uint32_t>(rng() % 4);
    const auto stages = Uneven(rng, count);
    for (const uint32_t chunks : {1u, 2u}) {
      const PipelineShape shape =
          Shape(PipelineSchedule::kOneForwardOneBackward, chunks, 40.0 * count);
      double end = 0;
      for (const auto& task : SimulatePipeline(stages, shape)) end = std::max(end, task.end_s);
      EXPECT_NEAR(SimulatedSeconds(stages, shape), end, 5e-3 * end);
    }
  }
}

TEST(Simulation, RunsEveryTaskOnceAndNoTwoAtATime) {
  std::mt19937_64 rng(3);
  for (const auto schedule : {PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward,
                              PipelineSchedule::kZeroBubbleH1, PipelineSchedule::kZeroBubbleV}) {
    const auto stages = Uneven(rng, 4);
    const bool v_shaped = schedule == PipelineSchedule::kZeroBubbleV;
    const bool split = v_shaped || schedule == PipelineSchedule::kZeroBubbleH1;
    const auto tasks = SimulatePipeline(stages, Shape(schedule, v_shaped ? 2 : 1, 9));
    EXPECT_EQ(tasks.size(), 4u * 9 * (v_shaped ? 2 : 1) * (split ? 3 : 2));
    for (size_t i = 1; i < tasks.size(); ++i) {
      if (tasks[i].stage != tasks[i - 1].stage) continue;
      EXPECT_GE(tasks[i].start_s, tasks[i - 1].end_s - 1e-12);
    }
  }
}

TEST(Schedule, NeverFallsWhenAMicroBatchOrAStageIsAdded) {
  for (const auto schedule : {PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward,
                              PipelineSchedule::kZeroBubbleH1, PipelineSchedule::kDualPipe}) {
    for (uint32_t count = 1; count < 6; ++count) {
      const double here = PipelineSeconds(Equal(count), Shape(schedule, 1, 8)).total_s;
      EXPECT_LE(here, PipelineSeconds(Equal(count), Shape(schedule, 1, 9)).total_s);
      EXPECT_LE(here, PipelineSeconds(Equal(count + 1), Shape(schedule, 1, 8)).total_s);
    }
  }
}

}  // namespace
}  // namespace longhaul::planner
