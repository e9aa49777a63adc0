#include "planner/local/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace longhaul::planner::layout_test {
namespace {

using namespace longhaul::literals;
using testing::HasSubstr;

MachineFacts Machine(uint32_t cores = 2) {
  MachineFacts facts;
  facts.cores = cores;
  facts.memory = 16_GiB;
  facts.level = CalibrationLevel::kPeak;
  facts.device = ShippedCpu(98_GFLOPs);
  facts.basis = "those of a test";
  return facts;
}

spec::ClusterSpec Cluster(uint32_t nodes, uint32_t slots) {
  return *spec::LocalCluster(nodes, slots, 2, 16_GiB);
}

spec::JobSpec PlanRequest() {
  spec::JobSpec job;
  job.name = "test";
  job.data.include = {"*.h"};
  return job;
}

TEST(PlanLocal, SpreadsTheMainJobOverBothNodes) {
  const auto plan = PlanLocal(PlanRequest(), Cluster(2, 2), Machine());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->nodes, 2u);
  EXPECT_EQ(plan->processes_per_node, 2u);
  EXPECT_EQ(plan->data_parallel, 4u);
  EXPECT_EQ(plan->micro_batch * plan->micro_batches * 4, 32u);
  EXPECT_EQ(plan->parameters, 974'208);
  EXPECT_THAT(plan->reason, HasSubstr("4 workers (2 on each of 2 nodes)"));
  EXPECT_THAT(plan->reason, HasSubstr("The runner-up, 2 workers (1 on each of 2 nodes)"));
  EXPECT_THAT(plan->reason, HasSubstr("within the model's error of 10 %"));
  EXPECT_THAT(plan->reason, HasSubstr("The machine's figures are those of a test."));
}

TEST(PlanLocal, UsesNoMoreWorkersThanArePaidFor) {
  // 32 workers on 2 cores would launch operators for a sequence each: predicted far slower.
  const auto plan = PlanLocal(PlanRequest(), Cluster(2, 16), Machine());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LT(plan->data_parallel, 32u);
  const auto slowest = std::max_element(
      plan->alternatives.begin(), plan->alternatives.end(),
      [](const auto& a, const auto& b) { return a.step.total() < b.step.total(); });
  EXPECT_THAT(slowest->verdict, HasSubstr("slower"));
}

TEST(PlanLocal, KeepsWhatTheJobFixes) {
  spec::JobSpec job = PlanRequest();
  job.resources.nodes = 1;
  job.resources.processes_per_node = 2;
  job.resources.micro_batch = 4;
  const auto plan = PlanLocal(job, Cluster(2, 2), Machine());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->nodes, 1u);
  EXPECT_EQ(plan->processes_per_node, 2u);
  EXPECT_EQ(plan->micro_batch, 4u);
  EXPECT_EQ(plan->micro_batches, 4u);
  EXPECT_THAT(plan->reason, HasSubstr("The job fixes nodes and processes_per_node and micro_bat"));
}

TEST(PlanLocal, KeepsTheLayoutThatTheJobFixes) {
  spec::JobSpec job = PlanRequest();
  job.layout.data = 2;
  job.layout.tensor = 2;
  job.layout.pipeline = 2;
  const auto plan = PlanLocal(job, Cluster(2, 4), Machine());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->ranks(), 8u);
  EXPECT_EQ(plan->nodes, 2u);
  EXPECT_EQ(plan->data_parallel, 2u);
  EXPECT_EQ(plan->micro_batch * plan->micro_batches * 2, 32u);
  EXPECT_THAT(plan->reason, HasSubstr("a model in 2 tensor parts x 2 stages"));
  // A quarter of the layers' matrices is on each rank.
  spec::JobSpec whole = PlanRequest();
  whole.layout.tensor = 1;
  whole.layout.pipeline = 1;
  const auto other = PlanLocal(whole, Cluster(2, 4), Machine());
  ASSERT_TRUE(other.ok());
  EXPECT_LT(2 * plan->memory.weights, other->memory.weights);
}

TEST(PlanLocal, RefusesALayoutThatHasNoPlace) {
  spec::JobSpec job = PlanRequest();
  job.layout.data = 4;
  job.layout.tensor = 4;
  const auto plan = PlanLocal(job, Cluster(2, 4), Machine());
  EXPECT_EQ(plan.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(plan.status().message(), HasSubstr("layout 4 x 4 x auto"));
  EXPECT_THAT(plan.status().message(), HasSubstr("8 slots on 2 nodes"));
}

// A batch of one gives replicas nothing to do; parts of a large layer keep the cores busy.
TEST(PlanLocal, OffersPartsWhereTheyWin) {
  spec::JobSpec job = PlanRequest();
  job.train.global_batch = 1;
  job.model.hidden = 512;
  job.model.sequence = 512;
  const auto plan = PlanLocal(job, Cluster(1, 2), Machine(2));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->tensor_parallel, 2u);
  job.layout.tensor = 1;
  job.layout.pipeline = 1;
  const auto plain = PlanLocal(job, Cluster(1, 2), Machine(2));
  ASSERT_TRUE(plain.ok());
  EXPECT_GT(plain->step.total(), 1.1 * plan->step.total());
}

TEST(PlanLocal, SaysWhatIsWrongWithWhatTheJobFixes) {
  struct Resources {
    std::optional<uint32_t> nodes;
    std::optional<uint32_t> processes;
    std::optional<uint32_t> micro_batch;
  };
  const struct {
    Resources resources;
    Code code;
    const char* want;
  } kRows[] = {
      {{3, {}, {}},
       Code::kFailedPrecondition,
       "the job wants 3 nodes, the cluster has 2 nodes: the largest that fits is 2 nodes"},
      {{2, 5, {}},
       Code::kFailedPrecondition,
       "wants 5 processes on each of 2 nodes, the cluster has 4 slots there: the largest that fits "
       "is 4"},
      {{1, 3, {}},
       Code::kInvalidArgument,
       "global batch 32 is not divisible by 3 ranks: nearest that work are 2, 4"},
      {{{}, 3, {}}, Code::kInvalidArgument, "not divisible by 3 ranks: nearest that work are 2, 4"},
      {{2, 2, 3},
       Code::kInvalidArgument,
       "micro-batch 3 does not divide the 8 sequences of a rank (global batch 32 over 4 ranks): "
       "nearest that work are 2, 4"},
      {{2, 2, 16}, Code::kInvalidArgument, "nearest that works is 8"},
  };
  for (const auto& row : kRows) {
    spec::JobSpec job = PlanRequest();
    job.resources.nodes = row.resources.nodes;
    job.resources.processes_per_node = row.resources.processes;
    job.resources.micro_batch = row.resources.micro_batch;
    const auto plan = PlanLocal(job, Cluster(2, 4), Machine());
    ASSERT_FALSE(plan.ok()) << row.want;
    EXPECT_EQ(plan.status().code(), row.code) << row.want;
    EXPECT_THAT(plan.status().message(), HasSubstr(row.want));
  }
}

TEST(PlanLocal, RefusesAJobLargerThanTheMemory) {
  spec::JobSpec job = PlanRequest();
  job.model.hidden = 4'096;
  job.model.layers = 24;
  const auto plan = PlanLocal(job, Cluster(2, 2), Machine());
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(plan.status().message(), HasSubstr("the machine has 16"));
}

TEST(PlanLocal, TakesSmallerMicroBatchesWhereMemoryIsShort) {
  spec::JobSpec job = PlanRequest();
  job.resources.nodes = 1;
  job.resources.processes_per_node = 1;
  MachineFacts facts = Machine();
  const auto roomy = PlanLocal(job, Cluster(1, 1), facts);
  ASSERT_TRUE(roomy.ok()) << roomy.status();
  // A byte less than it takes, of which 80 % may be planned.
  facts.memory = Bytes((roomy->memory.total().count() - 1) * 5 / 4);
  const auto tight = PlanLocal(job, Cluster(1, 1), facts);
  ASSERT_TRUE(tight.ok()) << tight.status();
  EXPECT_LT(tight->micro_batch, roomy->micro_batch);
}

TEST(PlanLocal, GivesACommandAllSlotsItDoesNotRefuse) {
  spec::JobSpec job;
  job.command = {"python3", "train.py"};
  const auto all = PlanLocal(job, Cluster(2, 3), Machine());
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->nodes, 2u);
  EXPECT_EQ(all->processes_per_node, 3u);
  EXPECT_THAT(all->reason, HasSubstr("nothing is predicted"));
  job.resources.nodes = 1;
  job.resources.processes_per_node = 2;
  const auto fixed = PlanLocal(job, Cluster(2, 3), Machine());
  EXPECT_EQ(fixed->data_parallel, 2u);
  EXPECT_THAT(fixed->reason, HasSubstr("as asked for"));
  job.resources.nodes = 4;
  EXPECT_EQ(PlanLocal(job, Cluster(2, 3), Machine()).status().code(), Code::kFailedPrecondition);
}

TEST(PlanLocal, RefusesAClusterThatCannotBe) {
  EXPECT_FALSE(PlanLocal(PlanRequest(), spec::ClusterSpec(), Machine()).ok());
  EXPECT_FALSE(
      PlanLocal(PlanRequest(), spec::ClusterSpec{{{"node-1", 0, 1, 1_GiB}}}, Machine()).ok());
  EXPECT_FALSE(PlanLocal(PlanRequest(), Cluster(1, 1), Machine(0)).ok());
}

// Whatever the sizes, a plan fills the batch exactly, fits the cluster, and is among its own
// alternatives, none of which is faster by more than the tie.
TEST(PlanLocal, HoldsItsContractOnRandomJobs) {
  std::mt19937_64 rng(5);
  for (int round = 0; round < 60; ++round) {
    spec::JobSpec job = PlanRequest();
    job.train.global_batch = static_cast<uint32_t>(1 + rng() % 300);
    job.model.layers = static_cast<uint32_t>(1 + rng() % 8);
    const auto nodes = static_cast<uint32_t>(1 + rng() % 5);
    const auto slots = static_cast<uint32_t>(1 + rng() % 9);
    const auto plan =
        PlanLocal(job, Cluster(nodes, slots), Machine(static_cast<uint32_t>(1 + rng() % 16)));
    ASSERT_TRUE(plan.ok()) << "round " << round << ": " << plan.status();
    ASSERT_EQ(uint64_t{plan->data_parallel} * plan->micro_batch * plan->micro_batches,
              job.train.global_batch);
    ASSERT_EQ(plan->data_parallel * plan->tensor_parallel * plan->pipeline_parallel, plan->ranks());
    ASSERT_LE(plan->nodes, nodes);
    ASSERT_LE(plan->processes_per_node, slots);
    ASSERT_EQ(std::count_if(plan->alternatives.begin(), plan->alternatives.end(),
                            [](const Alternative& row) { return row.chosen; }),
              1);
    for (const Alternative& row : plan->alternatives) {
      ASSERT_LE(plan->step.total(), 1.1000001 * row.step.total()) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace longhaul::planner::layout_test
