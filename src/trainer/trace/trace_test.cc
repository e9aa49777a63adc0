// That what the trainer writes of its steps is what the profiler reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "profiler/across/profiled_job.h"
#include "profiler/report/read_job.h"
#include "trainer/trainer_fixture.h"

namespace longhaul::trainer {
namespace {

TEST_F(Trainer, TracesOfPartsAreWhatTheProfilerReads) {
  config_.model.layers = 2;
  config_.train.steps = 4;
  config_.train.evaluate_every = 0;
  config_.micro_batch = 4;
  config_.trace.first_step = 2;
  config_.trace.steps = 2;
  (void)RunRanks({1, 2, 2}, [&](Communicators& groups, int) {
    MemoryWorkerApi worker_api;
    auto loop = Loop::Create(config_, groups, worker_api, stop_);
    if (!loop.ok() || !(*loop)->Run().ok()) _exit(5);
    return std::vector<float>();
  });
  std::vector<std::string> paths;
  for (int rank = 0; rank < 4; ++rank) {
    paths.push_back(directory_ + "/traces/rank-" + std::to_string(rank) + ".json");
  }
  auto ranks = profiler::ReadJob(paths, {});
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  const auto job = profiler::AssembleJob(std::move(ranks->ranks));
  ASSERT_TRUE(job.ok()) << job.status();

  EXPECT_EQ(job->unmatched, 0u);
  EXPECT_GT(job->matched, 0u);
  std::set<profiler::Dimension> dimensions;
  for (const profiler::Group& group : job->groups) dimensions.insert(group.dimension);
  EXPECT_TRUE(dimensions.contains(profiler::Dimension::kTensor));
  EXPECT_TRUE(dimensions.contains(profiler::Dimension::kPipeline));
  for (const profiler::RankSummary& rank : job->ranks) {
    EXPECT_EQ(rank.report.damages, 0u);
    ASSERT_EQ(rank.steps.size(), 2u);
    EXPECT_EQ(rank.steps[0].name, "ProfilerStep#2");
    int64_t sum = 0;
    std::set<profiler::Phase> phases;
    for (const profiler::Segment& segment : rank.segments) {
      sum += segment.end_ns - segment.begin_ns;
      phases.insert(segment.phase);
    }
    EXPECT_EQ(sum, rank.steps[1].end_ns - rank.steps[0].begin_ns);
    EXPECT_TRUE(phases.contains(profiler::Phase::kForward));
    EXPECT_TRUE(phases.contains(profiler::Phase::kBackward));
    EXPECT_TRUE(phases.contains(profiler::Phase::kOptimizer));
    // Each micro-batch (two) of each step (two) runs each product of the stage's layer both ways.
    std::map<std::pair<std::string, bool>, int> runs;
    for (const profiler::ModelOperator& op : rank.model_operators) {
      ++runs[{op.name, op.backward}];
    }
    EXPECT_EQ((runs[{"attention.qkv", false}]), 4);
    EXPECT_EQ((runs[{"attention.qkv", true}]), 4);
    EXPECT_EQ((runs[{"mlp.up", true}]), 4);
    // Cleared, measured and updated once a step.
    EXPECT_EQ((runs[{"parameters", false}]), 6);
  }
}

}  // namespace
}  // namespace longhaul::trainer

// BLAS is single-threaded from its loading on, and libtorch is ready before the first fork.
int main(int argc, char** argv) {
  if (std::getenv("OPENBLAS_NUM_THREADS") == nullptr) {
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    execv("/proc/self/exe", argv);
  }
  longhaul::trainer::PrepareTorch();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
