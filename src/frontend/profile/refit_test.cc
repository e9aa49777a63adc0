#include "frontend/profile/refit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/local/operator_times.h"

namespace longhaul::frontend {
namespace {

using planner::Figure;
using planner::FigureKind;
using profiler::Collective;
using profiler::CollectiveKind;
using profiler::ModelOperator;

// A rank that ran each kind once a direction, in so many microseconds.
profiler::RankSummary Rank() {
  profiler::RankSummary rank;
  rank.metadata.rank = 0;
  rank.metadata.device_name = "a processor";
  rank.metadata.devices = 2;
  const struct {
    const char* name;
    const char* kind;
    std::array<double, 3> sizes;
    int64_t forward_us;
    int64_t backward_us;
  } kRows[] = {{"mlp.up", "matmul", {64, 32, 16}, 10, 20},
               {"mlp.down", "matmul", {64, 16, 32}, 11, 22},
               {"output", "matmul", {64, 257, 16}, 12, 24},
               {"attention", "attention", {8, 16, 4}, 30, 60},
               {"norm", "norm", {64, 16, 0}, 2, 5},
               {"mlp.activation", "activation", {64, 32, 0}, 3, 4},
               {"residual", "residual", {64, 16, 0}, 1, 2},
               {"loss", "loss", {64, 257, 0}, 7, 8},
               {"embedding", "embedding", {64, 16, 0}, 6, 9},
               {"parameters", "optimizer", {1000, 0, 0}, 40, 0}};
  for (const auto& row : kRows) {
    for (const bool backward : {false, true}) {
      ModelOperator op;
      op.name = row.name;
      op.kind = row.kind;
      op.sizes = row.sizes;
      op.backward = backward;
      op.layer = 0;
      op.micro_batch = 0;
      op.cpu_ns = 1000 * (backward ? row.backward_us : row.forward_us);
      if (op.cpu_ns > 0) rank.model_operators.push_back(op);
    }
  }
  // A second span of the same product in the same micro-batch is part of it.
  ModelOperator bias = rank.model_operators[2];
  bias.cpu_ns = 5000;
  rank.model_operators.push_back(bias);
  rank.groups.push_back({"tensor.0", "tensor_parallel", {0, 1, 2, 3}, 4});
  Collective sum;
  sum.kind = CollectiveKind::kAllReduce;
  sum.bytes = 4096;
  sum.cpu_ns = 100'000;
  rank.collectives.push_back(sum);
  rank.between_steps_ns = 2'000'000;
  return rank;
}

profiler::ProfiledJob JobOf(profiler::RankSummary rank) {
  profiler::ProfiledJob job;
  job.ranks.push_back(std::move(rank));
  return job;
}

TEST(Refit, MakesFiguresOfWhatTheTraceShows) {
  const auto file = Refit(JobOf(Rank()), {"2026-01-01T00:00:00Z", "1", Bytes(1 << 30)});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->cores, 2u);
  EXPECT_EQ(file->machine, "a processor");
  const auto find = [&](FigureKind kind, double first) {
    for (const Figure& figure : file->figures) {
      if (figure.kind == kind && figure.sizes[0] == first) return figure;
    }
    return Figure();
  };
  EXPECT_DOUBLE_EQ(find(FigureKind::kAttention, 8).forward_s, 30e-6);
  EXPECT_DOUBLE_EQ(find(FigureKind::kAttention, 8).backward_s, 60e-6);
  EXPECT_DOUBLE_EQ(find(FigureKind::kOptimizer, 1000).forward_s, 40e-6);
  // Four ranks on two cores take twice their CPU time by the clock.
  EXPECT_DOUBLE_EQ(find(FigureKind::kAllReduce, 4).forward_s, 200e-6);
  EXPECT_DOUBLE_EQ(find(FigureKind::kRuntime, 1).forward_s, 2e-3);
  for (const Figure& figure : file->figures) {
    if (figure.kind == FigureKind::kMatmul && figure.sizes[1] == 16) {
      EXPECT_DOUBLE_EQ(figure.forward_s, 16e-6);
    }
  }
}

// Small ones leave one after the other, which takes twice a rank's time; large ones leave at once.
TEST(Refit, TellsTwoThatExchangeFromTwoOfARing) {
  profiler::RankSummary rank = Rank();
  rank.groups.push_back({"data.0", "data_parallel", {0, 1}, 2});
  Collective sum = rank.collectives.front();
  sum.group = 1;
  for (const int64_t bytes : {int64_t{4} << 20, (int64_t{4} << 20) + 4}) {
    sum.bytes = bytes;
    rank.collectives.push_back(sum);
  }
  const auto file = Refit(JobOf(rank), {"2026-01-01T00:00:00Z", "1", Bytes(1 << 30)});
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<double> seconds;
  for (const Figure& figure : file->figures) {
    if (figure.kind == FigureKind::kAllReduce && figure.sizes[0] == 2) {
      seconds.push_back(figure.forward_s);
    }
  }
  EXPECT_THAT(seconds, testing::ElementsAre(testing::DoubleEq(200e-6), testing::DoubleEq(100e-6)));
}

// Three ranks on two cores for 3 ms: 6 ms of them, of which operators and calls took a part;
// the rest is the transport's.
TEST(Refit, GivesWhatNoSpanShowsToTheExchanges) {
  profiler::ProfiledJob job;
  double operators_us = 0;
  for (int r = 0; r < 3; ++r) {
    profiler::RankSummary rank = Rank();
    rank.steps.push_back({"ProfilerStep#1", 0, 3'000'000});
    job.ranks.push_back(rank);
  }
  for (const ModelOperator& op : job.ranks[0].model_operators) {
    operators_us += static_cast<double>(op.cpu_ns) * 1e-3;
  }
  const double beyond = (6000 - 3 * operators_us) / 300;
  ASSERT_GT(beyond, 1);
  const auto file = Refit(job, {"2026-01-01T00:00:00Z", "1", Bytes(1 << 30)});
  ASSERT_TRUE(file.ok()) << file.status();
  for (const Figure& figure : file->figures) {
    // Of four ranks on two cores: twice their CPU time by the clock.
    if (figure.kind == FigureKind::kAllReduce) {
      EXPECT_NEAR(figure.forward_s, 2 * beyond * 100e-6, 1e-9);
    }
  }
}

TEST(Refit, RefusesTracesThatNameNoOperators) {
  profiler::RankSummary rank = Rank();
  rank.model_operators.clear();
  const auto file = Refit(JobOf(rank), {});
  EXPECT_EQ(file.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(file.status().message(), testing::HasSubstr("trace.first_step"));
  const auto all = Rank().model_operators;
  rank.model_operators.assign(all.begin(), all.begin() + 2);  // one product, both ways
  EXPECT_THAT(Refit(JobOf(rank), {}).status().message(), testing::HasSubstr("too little"));
}

TEST(AgainstDevice, ComparesEachOperatorWithTheFile) {
  const profiler::ProfiledJob job = JobOf(Rank());
  const auto file = Refit(job, {"2026-01-01T00:00:00Z", "1", Bytes(1 << 30)});
  ASSERT_TRUE(file.ok());
  const auto rows = AgainstDevice(job, *file);
  ASSERT_EQ(rows.size(), 19u);
  for (const MeasuredOperator& row : rows) {
    // A file made of this very trace: what a surface smooths is little.
    EXPECT_NEAR(row.predicted_s / row.measured_s, 1, 0.25) << row.name;
  }
  const std::string text = AgainstDeviceText(job, *file);
  EXPECT_THAT(text, testing::HasSubstr("mlp.down"));
  EXPECT_THAT(text, testing::HasSubstr("layer 0"));
}

}  // namespace
}  // namespace longhaul::frontend
