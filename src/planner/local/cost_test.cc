#include "planner/local/cost.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/local/tape.h"

namespace longhaul::planner::cost_test {
namespace {

using namespace longhaul::literals;

MachineFacts Machine(uint32_t cores = 2) {
  MachineFacts facts;
  facts.cores = cores;
  facts.memory = 16_GiB;
  facts.device = ShippedCpu(98_GFLOPs);
  return facts;
}

// A machine on which everything takes a second an element or FLOP, so that a step is a count.
MachineFacts CountingMachine() {
  MachineFacts facts = Machine();
  for (Figure& figure : facts.device.figures) {
    figure.backward_s = HasBackward(figure.kind) ? figure.forward_s : 0;
  }
  return facts;
}

TEST(TrainerParameters, CountsTheTablesOfEarlierTokens) {
  // 875,520 of the plain model and three tables of 257 x 128: what the trainer reports.
  EXPECT_EQ(TrainerParameters(spec::ModelSpec()), 875'520 + 3 * 257 * 128);
}

TEST(LocalCost, AddsAsManyLayersAsTheModelHas) {
  const MachineFacts facts = CountingMachine();
  const LocalCost cost(facts);
  spec::ModelSpec model;
  const auto compute = [&](uint32_t layers) {
    model.layers = layers;
    return cost.Step(model, 8, {1}, 8).compute.count();
  };
  EXPECT_NEAR(compute(8) - compute(4), 4 * (compute(5) - compute(4)), 1e-9);
}

TEST(LocalCost, WaitsForTheFullestCore) {
  const spec::ModelSpec model;
  const auto compute = [&](uint32_t ranks, uint32_t cores) {
    const MachineFacts facts = Machine(cores);
    return LocalCost(facts).Step(model, 12, {ranks}, 1).compute.count();
  };
  EXPECT_DOUBLE_EQ(compute(3, 2), 2 * compute(3, 3));
  EXPECT_DOUBLE_EQ(compute(4, 2), 2 * compute(4, 4));
  EXPECT_DOUBLE_EQ(compute(4, 3), 2 * compute(4, 4));
  EXPECT_DOUBLE_EQ(compute(2, 2), compute(2, 64));
}

TEST(LocalCost, HasNoAllReduceOnOneRank) {
  const MachineFacts facts = Machine();
  const LocalCost cost(facts);
  EXPECT_EQ(cost.Step({}, 8, {1}, 8).all_reduce.count(), 0);
  EXPECT_GT(cost.Step({}, 8, {2}, 4).all_reduce.count(), 0);
}

// Two tensor parts have a core each, and no step gains by the other's.
TEST(LocalCost, TwoThatExchangeWorkOneAfterTheOther) {
  const MachineFacts facts = Machine();
  MachineFacts dear = facts;
  for (Figure& figure : dear.device.figures) {
    if (figure.kind == FigureKind::kAllReduce) figure.forward_s *= 2;
  }
  const spec::ModelSpec model;
  const auto seconds = [&](const MachineFacts& machine, uint32_t data = 1) {
    return LocalCost(machine).Step(model, 8, {data, 2, 1}, 4).total().count();
  };
  const OperatorTimes times(facts.device.figures);
  const auto by_clock = [&](double bytes) {
    return times.Of(FigureKind::kAllReduce, {2, bytes, 0}).forward_s;
  };
  const double column = 4.0 * 4 * model.sequence;
  const double micro_batch = (2 + 4 * model.layers) * by_clock(column * model.hidden) +
                             by_clock(column) + by_clock(2 * column);
  EXPECT_NEAR(seconds(dear) - seconds(facts), 2 * micro_batch + by_clock(32), 1e-6);
  // Of two pairs each needs one core of the two: half the micro-batches each take half the time.
  const double gradients = by_clock(4.0 * double(StageParameters(model, {2, 2, 1}, 0)));
  EXPECT_LT(seconds(dear, 2) - seconds(facts, 2), 1.2 * (micro_batch + gradients + by_clock(32)));
}

TEST(LocalCost, CountsStatesAndSlotsByHand) {
  const MachineFacts facts = Machine();
  const RankMemory memory = LocalCost(facts).Memory({}, {}, {4}, 8, 5_MiB);
  const int64_t floats = TrainerParameters({});
  EXPECT_EQ(memory.weights, Bytes(4 * floats));
  EXPECT_EQ(memory.gradients, Bytes(4 * floats));
  EXPECT_EQ(memory.moments, Bytes(8 * floats));
  EXPECT_EQ(memory.snapshot_slots, Bytes(36 * floats));
  EXPECT_EQ(memory.data, 5_MiB);
  EXPECT_EQ(memory.process, facts.device.process_memory);
}

// A trace of the trainer's allocations (4 layers of 128, 8 sequences of 128) had 44.01 MiB of
// tensors live at most: 16 activations and the softmax a layer, the ends, the logits.
TEST(TrainingPeak, IsWhatATraceOfTheTrainerHas) {
  const ActivationPeak peak = TrainingPeak({}, 8);
  EXPECT_NEAR(double(peak.live.count()) / (1 << 20), 44.0, 0.5);
  EXPECT_GE(peak.held, peak.live);
  EXPECT_LT(peak.held.count(), 1.2 * double(peak.live.count()));
}

TEST(EvaluationPeak, DoesNotGrowWithTheLayers) {
  spec::ModelSpec model;
  const Bytes few = EvaluationPeak(model, 16).held;
  model.layers = 40;
  EXPECT_EQ(EvaluationPeak(model, 16).held, few);
  EXPECT_LT(few, TrainingPeak(model, 16).held);
}

TEST(LocalCost, DoesNotOverflowOnTheLargestJob) {
  spec::ModelSpec model;
  model.layers = 1'000;
  model.hidden = 65'536;
  model.heads = 1'024;
  model.sequence = 1'000'000;
  const MachineFacts facts = Machine();
  const RankMemory memory = LocalCost(facts).Memory(model, {}, {1'000'000}, 1'000'000, 1_GiB);
  EXPECT_GT(memory.total(), Bytes(int64_t{1} << 50));
}

TEST(CheckFacts, RefusesAMachineThatCannotBe) {
  EXPECT_TRUE(CheckFacts(Machine()).ok());
  EXPECT_FALSE(CheckFacts(Machine(0)).ok());
  MachineFacts facts = Machine();
  facts.memory = Bytes(0);
  EXPECT_FALSE(CheckFacts(facts).ok());
}

}  // namespace
}  // namespace longhaul::planner::cost_test
