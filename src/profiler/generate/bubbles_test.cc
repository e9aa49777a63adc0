// Pipelines of known schedules: which one it is and how long it has its stages idle is recognised
// from the traces alone, and what else they wait for is kept apart.
#include <gtest/gtest.h>

#include "profiler/across/findings.h"
#include "profiler/generate/profile_testing.h"

namespace longhaul::profiler {
namespace {

// Stages of 1 and 1.5 units a micro-batch; the schedule asks for a slot of their mean.
TEST(Bubbles, BubblesBeyondTheScheduleAreReported) {
  GeneratorOptions options;
  options.tensor = 1;
  options.data = 1;
  options.heavy_stage = 1;
  options.pipeline_wire_us = 1;
  const Findings findings = FindAll(Profile(options));
  const auto& stages = findings.pipeline.stages;
  ASSERT_EQ(stages.size(), 2u);
  const double unit = stages[0].compute_s / 4;
  EXPECT_NEAR(stages[0].due_s / unit, 1.25, 0.05);
  // The first stage: four slots of 1.5 and the ends of one of 1, less four of 1.
  EXPECT_NEAR(stages[0].bubble_s / unit, 3, 0.1);
  EXPECT_NEAR(stages[0].late_s / unit, 3 - 1.25, 0.1);
  // The second idles one slot of the first while the pipeline fills and drains.
  EXPECT_NEAR(stages[1].bubble_s / unit, 1, 0.05);
  EXPECT_NEAR(stages[1].late_s / unit, 0, 0.01);
}

TEST(Bubbles, ThePipelinesBubbleIsTheSchedules) {
  GeneratorOptions options = Skewed();
  options.tensor = 1;
  options.data = 1;
  options.pipeline = 4;
  options.micro_batches = 12;
  options.pipeline_wire_us = 1;
  options.ranks_per_host = 1;
  const Findings findings = FindAll(Profile(options));
  ASSERT_EQ(findings.pipeline.stages.size(), 4u);
  EXPECT_EQ(findings.pipeline.micro_batches, 12u);
  EXPECT_DOUBLE_EQ(findings.pipeline.expected_bubble, 3.0 / 15);
  // The optimizer's half layer and the host's pauses dilute it a little.
  EXPECT_NEAR(findings.pipeline.measured_bubble, 0.2, 0.01);
  // All of it is where the schedule has it.
  for (const RankTotals& totals : findings.totals) {
    EXPECT_EQ(totals.sum_ns(), totals.wall_ns);
    EXPECT_GT(totals.bubble_ns + totals.late_bubble_ns, 0);
    EXPECT_LT(static_cast<double>(totals.late_bubble_ns),
              0.01 * static_cast<double>(totals.wall_ns));
  }
}

// (p - 1) / v slots of a micro-batch: Narayanan et al., SC 2021, 2.2.2.
TEST(Bubbles, AnInterleavedPipelinesBubbleIsTheSchedules) {
  for (const int stages : {2, 4}) {
    GeneratorOptions options = Skewed();
    options.tensor = 1;
    options.data = 1;
    options.pipeline = stages;
    options.schedule = Schedule::kInterleaved;
    options.chunks = 2;
    options.micro_batches = 3 * stages;
    options.pipeline_wire_us = 1;
    options.ranks_per_host = 1;
    const Findings findings = FindAll(Profile(options));
    EXPECT_EQ(findings.pipeline.micro_batches, 3u * static_cast<unsigned>(stages));
    EXPECT_EQ(findings.pipeline.chunks, 2u);
    EXPECT_EQ(ScheduleName(findings.pipeline), "interleaved");
    const double due = (stages - 1) / 2.0;
    EXPECT_DOUBLE_EQ(findings.pipeline.expected_bubble, due / (3 * stages + due));
    EXPECT_NEAR(findings.pipeline.measured_bubble, due / (3 * stages + due), 0.01);
    for (const RankTotals& totals : findings.totals) {
      EXPECT_EQ(totals.sum_ns(), totals.wall_ns);
      EXPECT_GT(totals.bubble_ns, 0);
      EXPECT_LT(static_cast<double>(totals.late_bubble_ns),
                0.01 * static_cast<double>(totals.wall_ns))
          << stages << " stages";
    }
  }
}

struct Case {
  Schedule schedule;
  int stages;
  double inputs, weights;  // of a forward
  double due;              // forwards that the papers' formulas have each stage idle a step
};

GeneratorOptions OptionsOf(const Case& c) {
  GeneratorOptions options = Skewed();
  options.tensor = 1;
  options.data = 1;
  options.pipeline = c.stages;
  options.schedule = c.schedule;
  const bool two = c.schedule == Schedule::kZeroBubbleV || c.schedule == Schedule::kDualPipe;
  options.chunks = two ? 2 : 1;
  options.inputs_share = c.inputs;
  options.weights_share = c.weights;
  options.micro_batches = 4 * c.stages;
  options.warm_up = 1;  // stages that shift against each other have done so
  options.pipeline_wire_us = 1;
  options.ranks_per_host = 1;
  return options;
}

// across/schedule_play.h cites the formulas.
constexpr Case kPublished[] = {
    {Schedule::kZeroBubbleH1, 4, 1.4, 0.6, 3 * (1 + 1.4 - 0.6)},
    {Schedule::kZeroBubbleH1, 2, 1, 1, 1},
    {Schedule::kZeroBubbleH2, 4, 1.4, 0.6, 3 * (1 + 1.4 - 2 * 0.6)},
    {Schedule::kZeroBubbleH2, 4, 1, 1, 0},
    {Schedule::kZeroBubbleH2, 2, 1.2, 0.8, 1 + 1.2 - 2 * 0.8},
    {Schedule::kZeroBubbleV, 4, 1, 1, 0},
    {Schedule::kZeroBubbleV, 2, 1, 1, 0},
    {Schedule::kDualPipe, 4, 1, 1, (4 / 2 - 1) * (3 + 2 - 3)},
    {Schedule::kDualPipe, 6, 1, 1, (6 / 2 - 1) * (3 + 2 - 3)},
};

TEST(Bubbles, AreThoseOfThePublishedFormulas) {
  for (const Case& c : kPublished) {
    SCOPED_TRACE(std::string(ToString(c.schedule)) + " of " + std::to_string(c.stages) +
                 " stages, due " + std::to_string(c.due));
    const GeneratorOptions options = OptionsOf(c);
    const Findings findings = FindAll(Profile(options));
    const Pipeline& pipeline = findings.pipeline;
    EXPECT_EQ(ScheduleName(pipeline), ToString(c.schedule));
    ASSERT_EQ(pipeline.micro_batches, static_cast<uint64_t>(options.micro_batches));
    EXPECT_EQ(pipeline.chunks, static_cast<uint64_t>(options.chunks));
    const double slots = c.due / (1 + c.inputs + c.weights);
    const double share = slots / (options.micro_batches + slots);
    EXPECT_NEAR(pipeline.expected_bubble, share, 0.01);
    EXPECT_NEAR(pipeline.measured_bubble, share, 0.01);
    for (const RankTotals& totals : findings.totals) {
      EXPECT_EQ(totals.sum_ns(), totals.wall_ns);
      EXPECT_LT(static_cast<double>(totals.late_bubble_ns),
                0.01 * static_cast<double>(totals.wall_ns));
    }
  }
}

// Passes of unlike length, for which nothing is published: what is due is what the run has.
TEST(Bubbles, OfUnlikePassesAreWhatTheScheduleHas) {
  for (const Schedule schedule : {Schedule::kZeroBubbleV, Schedule::kDualPipe}) {
    SCOPED_TRACE(ToString(schedule));
    const Findings findings = FindAll(Profile(OptionsOf({schedule, 4, 1.4, 0.6, 0})));
    EXPECT_EQ(ScheduleName(findings.pipeline), ToString(schedule));
    EXPECT_GT(findings.pipeline.expected_bubble, 0.02);
    EXPECT_NEAR(findings.pipeline.measured_bubble, findings.pipeline.expected_bubble, 0.01);
  }
}

// All other stages come to wait for one that stands still, by as much as it costs.
TEST(Bubbles, AStallOfOneStageIsBeyondEachSchedule) {
  for (const Case& c : kPublished) {
    SCOPED_TRACE(std::string(ToString(c.schedule)) + " of " + std::to_string(c.stages) +
                 " stages, due " + std::to_string(c.due));
    GeneratorOptions options = OptionsOf(c);
    options.stall_rank = 1;
    options.stall_step = 1;
    const double usual_s = Generate(options).seconds;
    const double step_s = usual_s / options.steps;
    options.stall_us = 0.3 * step_s * 1e6;
    const double cost = (Generate(options).seconds - usual_s) / step_s;
    ASSERT_GT(cost, 0.2);
    const Findings findings = FindAll(Profile(options));
    EXPECT_EQ(ScheduleName(findings.pipeline), ToString(c.schedule));
    for (size_t rank = 0; rank < findings.totals.size(); ++rank) {
      const double late_s = static_cast<double>(findings.totals[rank].late_bubble_ns) * 1e-9;
      EXPECT_NEAR(late_s / step_s, rank == 1 ? 0 : cost, 0.01) << "rank " << rank;
    }
  }
}

// As Megatron's own profiling has it: one annotation around all of the schedule. Then every pass
// counts as backward, and what is sent on isn't taken for gradients that go both ways.
TEST(Bubbles, AnAnnotationAroundAllPassesMakesNoOtherSchedule) {
  const GeneratorOptions options = OptionsOf({Schedule::kOneForwardOneBackward, 4, 1.4, 0.6, 0});
  const Findings findings = FindAll(Profile(options, [](int, std::string* json) {
    const std::string events = "\"traceEvents\": [";
    json->insert(json->find(events) + events.size(),
                 R"({"ph": "X", "cat": "user_annotation", "name": "forward_backward_func",
                     "pid": 4000, "tid": 4000, "ts": 0.5, "dur": 1e8},)");
  }));
  EXPECT_EQ(ScheduleName(findings.pipeline), "1F1B");
  EXPECT_EQ(findings.pipeline.micro_batches, 16u);
}

TEST(Bubbles, AreOfTheScheduleThatTheUserNames) {
  const ProfiledJob job = Profile(OptionsOf({Schedule::kZeroBubbleH2, 4, 1, 1, 0}));
  const Findings reported = FindAll(job);
  const Findings named = FindAll(job, Schedule::kZeroBubbleH1);
  EXPECT_EQ(ScheduleName(reported.pipeline), "ZB-H2");
  EXPECT_EQ(ScheduleName(named.pipeline), "ZB-H1");
  EXPECT_NEAR(reported.exposed.due_slots, 0, 0.02);
  EXPECT_NEAR(named.exposed.due_slots, 3 * 1.0 / 3, 0.02);
}

}  // namespace
}  // namespace longhaul::profiler
