#include "planner/cost.h"

#include <gtest/gtest.h>

#include <limits>

namespace longhaul::planner {
namespace {

using namespace longhaul::literals;

MachineFacts Machine(uint32_t cores = 2) {
  MachineFacts facts;
  facts.cores = cores;
  facts.memory = 16_GiB;
  facts.flops_per_core = 98_GFLOPs;
  return facts;
}

TEST(RingAllReduce, AgreesWithTheTableWorkedByHand) {
  MachineFacts facts = Machine();
  facts.reduce_latency = Seconds(1e-3);
  facts.reduce_bandwidth = BytesPerSecond(1e6);
  const struct {
    int64_t bytes;
    uint32_t ranks;
    double want_ms;
  } kRows[] = {{1'000'000, 1, 0},      // nobody to talk to
               {1'000'000, 2, 1'002},  // 2 steps of 1 ms + 500 ms
               {1'000'000, 4, 1'506},  // 6 steps of 1 ms + 250 ms
               {0, 5, 8}};             // 8 steps of latency alone
  for (const auto& row : kRows) {
    EXPECT_NEAR(RingAllReduce(Bytes(row.bytes), row.ranks, facts).count() * 1e3, row.want_ms, 1e-9);
  }
}

// CPU milliseconds a step, summed over ranks, measured on a busy 2-core machine with cores of 93 to
// 104 GFLOP/s (the lower and upper end of several runs).
TEST(PredictStep, IsWithinTenPercentOfMeasurements) {
  const struct {
    uint32_t ranks;
    double least_ms;
    double most_ms;
  } kRows[] = {{1, 102, 120}, {2, 110, 123}, {4, 140, 155}, {8, 208, 230}};
  const spec::ModelSpec model;  // 4 layers x 128, sequence 128
  for (const auto& row : kRows) {
    // As many cores as ranks: the time of one rank is its CPU time.
    const StepTime step = PredictStep(model, 8, row.ranks, 8 / row.ranks, Machine(row.ranks));
    const double cpu_ms = 1e3 * step.compute.count() * row.ranks;
    EXPECT_GE(cpu_ms, 0.9 * row.least_ms) << row.ranks << " ranks";
    EXPECT_LE(cpu_ms, 1.1 * row.most_ms) << row.ranks << " ranks";
  }
}

TEST(PredictStep, WaitsForTheFullestCore) {
  const spec::ModelSpec model;
  const auto compute = [&](uint32_t ranks, uint32_t cores) {
    return PredictStep(model, 12, ranks, 1, Machine(cores)).compute.count();
  };
  EXPECT_DOUBLE_EQ(compute(3, 2), 2 * compute(3, 3));
  EXPECT_DOUBLE_EQ(compute(4, 2), 2 * compute(4, 4));
  EXPECT_DOUBLE_EQ(compute(4, 3), 2 * compute(4, 4));
  EXPECT_DOUBLE_EQ(compute(2, 2), compute(2, 64));
}

TEST(PredictMemory, AgreesWithAnAccountByHand) {
  const spec::ModelSpec model;  // 875,520 parameters
  const RankMemory memory = PredictMemory(model, 4, 8);
  EXPECT_EQ(memory.weights, Bytes(3'502'080));
  EXPECT_EQ(memory.gradients, Bytes(3'502'080));
  EXPECT_EQ(memory.moments, Bytes(7'004'160));
  EXPECT_EQ(memory.buffers, Bytes(3'502'080));
  EXPECT_EQ(memory.snapshot_arena, Bytes(21'012'480));
  // 8 * 128 rows of (4 * (16 * 128 + 2 * 4 * 128) + 3 * 257) floats.
  EXPECT_EQ(memory.activations, Bytes(4 * 1'024 * (4 * 3'072 + 771)));
  EXPECT_EQ(PredictMemory(model, 1, 8).buffers, Bytes(0));
}

TEST(PredictMemory, DoesNotOverflowOnTheLargestJob) {
  spec::ModelSpec model;
  model.layers = 1'000;
  model.hidden = 65'536;
  model.heads = 1'024;
  model.sequence = 1'000'000;
  EXPECT_GT(PredictMemory(model, 1'000'000, 1'000'000).total(), Bytes(int64_t{1} << 50));
}

TEST(CheckFacts, RefusesAMachineThatCannotBe) {
  EXPECT_TRUE(CheckFacts(Machine()).ok());
  EXPECT_FALSE(CheckFacts(Machine(0)).ok());
  MachineFacts facts = Machine();
  facts.memory = Bytes(0);
  EXPECT_FALSE(CheckFacts(facts).ok());
  facts = Machine();
  facts.flops_per_core = FlopsPerSecond(std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(CheckFacts(facts).ok());
  facts = Machine();
  facts.reduce_latency = Seconds(-1);
  EXPECT_FALSE(CheckFacts(facts).ok());
}

}  // namespace
}  // namespace longhaul::planner
