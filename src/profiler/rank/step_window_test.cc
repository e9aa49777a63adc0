// Some of a run's steps: which they are, and that they are what a trace of them alone would be.
#include "profiler/rank/step_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/generate/job_generator.h"
#include "profiler/read/kineto_reader.h"

namespace longhaul::profiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Step> Named(const std::vector<std::string>& names) {
  std::vector<Step> steps;
  for (const std::string& name : names) {
    const auto begin = static_cast<int64_t>(100 * steps.size());
    steps.push_back({name, begin, begin + 90});
  }
  return steps;
}

TEST(StepWindow, AStepsNumberIsAtItsNamesEnd) {
  EXPECT_THAT(StepNumbers(Named({"ProfilerStep#9", "ProfilerStep#10"})), ElementsAre(9, 10));
  EXPECT_THAT(StepNumbers(Named({"step 4 of 8", "train"})), ElementsAre(0, 1));
  EXPECT_THAT(StepNumbers(Named({"step 7", "step 7"})), ElementsAre(0, 1));
  EXPECT_THAT(StepNumbers(Named({"step 99999999999999999999"})), ElementsAre(0));
  EXPECT_THAT(StepNumbers(Named({"42"})), ElementsAre(42));
}

TEST(StepWindow, IsWrittenAsANumberOrTwo) {
  EXPECT_EQ(ParseStepWindow("7").value(), (StepWindow{7, 7}));
  EXPECT_EQ(ParseStepWindow("20-29").value(), (StepWindow{20, 29}));
  for (const char* bad : {"", "-", "3-", "-3", "5-4", "1-2-3", "a", "1.5"}) {
    EXPECT_EQ(ParseStepWindow(bad).status().code(), Code::kInvalidArgument) << bad;
  }
}

TEST(StepWindow, LastsUntilTheNextStepsBegin) {
  std::vector<Step> steps = Named({"step 3", "step 4", "step 5", "step 6"});
  EXPECT_EQ(KeepSteps({4, 5}, &steps).value(), (Interval{100, 300}));
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].name, "step 4");
  EXPECT_EQ(KeepSteps({5, 9}, &steps).value(), (Interval{200, INT64_MAX}));
  const auto none = KeepSteps({6, 9}, &steps);
  EXPECT_EQ(none.status().code(), Code::kNotFound);
  EXPECT_THAT(ToString(none.status()), HasSubstr("holds steps 5 to 5, none of 6 to 9"));
}

// Steps 1 and 2 of four are, of every schedule, to the nanosecond what a trace of two steps behind
// one that isn't traced holds.
TEST(StepWindow, IsWhatATraceOfItsStepsAloneHolds) {
  for (size_t i = 0; i < kSchedules; ++i) {
    SCOPED_TRACE(ToString(Schedule(i)));
    GeneratorOptions all;
    all.schedule = Schedule(i);
    const bool two_chunks = all.schedule == Schedule::kInterleaved ||
                            all.schedule == Schedule::kZeroBubbleV ||
                            all.schedule == Schedule::kDualPipe;
    if (two_chunks) all.chunks = 2;
    all.steps = 4;
    all.input_us = 500;
    GeneratorOptions some = all;
    some.warm_up = 1;
    some.steps = 2;
    const GeneratedJob of_all = Generate(all), of_some = Generate(some);
    for (int rank = 0; rank < 8; ++rank) {
      const auto read = [&](const GeneratedJob& job, const GeneratorOptions& options) {
        const std::string json = KinetoJson(job, options, rank);
        const auto source = OpenBytes(json);
        return ReadKineto(*source, "rank-" + std::to_string(rank)).value();
      };
      SummaryOptions window;
      window.steps = {4, 5};  // the generator's steps begin at 3
      const RankSummary got = Summarize(read(of_all, all), window).value();
      const RankSummary want = Summarize(read(of_some, some));
      ASSERT_EQ(got.steps.size(), 2u);
      EXPECT_EQ(got.steps[0].name, "ProfilerStep#4");
      EXPECT_EQ(got.steps[0].begin_ns, want.steps[0].begin_ns);
      EXPECT_EQ(got.steps[1].end_ns, want.steps[1].end_ns);
      ASSERT_EQ(got.segments.size(), want.segments.size());
      for (size_t s = 0; s < got.segments.size(); ++s) {
        ASSERT_EQ(got.segments[s].begin_ns, want.segments[s].begin_ns);
        ASSERT_EQ(got.segments[s].end_ns, want.segments[s].end_ns);
        ASSERT_EQ(got.segments[s].spent, want.segments[s].spent);
        ASSERT_EQ(got.segments[s].launch_ns, want.segments[s].launch_ns);
        ASSERT_EQ(got.segments[s].collective, want.segments[s].collective);
      }
      ASSERT_EQ(got.collectives.size(), want.collectives.size());
      for (size_t c = 0; c < got.collectives.size(); ++c) {
        ASSERT_EQ(got.collectives[c].start_ns, want.collectives[c].start_ns);
        ASSERT_EQ(got.collectives[c].ready_ns, want.collectives[c].ready_ns);
        ASSERT_EQ(got.collectives[c].sequence, want.collectives[c].sequence);
      }
      ASSERT_EQ(got.kernels.size(), want.kernels.size());
      for (size_t k = 0; k < got.kernels.size(); ++k) {
        EXPECT_EQ(got.kernels[k].count, want.kernels[k].count);
        EXPECT_EQ(got.kernels[k].total_ns, want.kernels[k].total_ns);
      }
      EXPECT_EQ(got.host_waits, want.host_waits);
      EXPECT_EQ(got.host_input, want.host_input);
    }
  }
}

}  // namespace
}  // namespace longhaul::profiler
