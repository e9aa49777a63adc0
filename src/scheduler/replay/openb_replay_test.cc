#include "scheduler/replay/openb_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/replay/rival_rules.h"

namespace longhaul::scheduler {
namespace {

using ::testing::HasSubstr;

// Three models in the proportions of a small mixed cluster; made up.
spec::Topology Cluster() {
  std::string text = "sn,cpu_milli,memory_mib,gpu,model\n";
  for (int i = 0; i < 40; ++i) {
    const char* kinds[] = {"96000,400000,8,A", "100000,400000,2,B", "32000,200000,4,C"};
    text += "n" + std::to_string(i) + "," + kinds[i % 3] + "\n";
  }
  return *spec::Topology::Create(*ReadOpenbNodes(text, "nodes.csv"));
}

std::vector<TraceJob> Tasks(bool pinned) {
  std::string text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n";
  for (int i = 0; i < 200; ++i) {
    const char* needs[] = {"3000,1,1,810,", "8000,1,1,470,",  "11000,1,1,1000,", "4000,1,1,320,",
                           "16000,1,0,0,",  "9000,1,1,1000,", "60000,1,8,1000,"};
    const int need = i % 41 == 0 ? 6 : i % 6;
    text += "p" + std::to_string(i) + "," + needs[need] + (pinned && i % 3 == 0 ? "C" : "") + "\n";
  }
  return *ReadOpenbTasks(text, "pods.csv");
}

TEST(InflatedArrivals, ReachTheDemandAndNotBeyond) {
  const std::vector<TraceJob> tasks = Tasks(false);
  for (const int64_t capacity : {100'000, 1'000'000}) {
    Random random(7);
    const std::vector<uint32_t> order = InflatedArrivals(tasks, capacity, random);
    int64_t demand = 0;
    for (const uint32_t i : order) {
      demand += tasks[i].task.gpus * kWholeGpu + tasks[i].task.share_milli;
    }
    EXPECT_LE(demand, capacity * 13 / 10);
    EXPECT_GT(demand, capacity * 13 / 10 - 8'001);
  }
}

TEST(Replay, AllocatesAllThatArrivesWhileThereIsRoom) {
  const spec::Topology topology = Cluster();
  const std::vector<TraceJob> tasks = Tasks(false);
  Random random(1);
  const auto order = InflatedArrivals(tasks, CapacityMilli(topology), random);
  for (const ReplayRule rule : {ReplayRule::kLonghaul, ReplayRule::kBestFit,
                                ReplayRule::kPublishedFgd, ReplayRule::kRandom}) {
    const ReplayResult result = *Replay(topology, tasks, order, rule);
    EXPECT_EQ(result.decisions, order.size());
    EXPECT_EQ(result.allocated[0], 0);
    EXPECT_NEAR(result.allocated[40], 40, 5);
    EXPECT_GT(result.allocated[130], 70);
    EXPECT_LE(result.allocated[130], 100);
    for (size_t p = 1; p < result.allocated.size(); ++p) {
      ASSERT_GE(result.allocated[p], result.allocated[p - 1]);
    }
  }
}

// The direction of the published comparison, on a cluster and lists of our own.
TEST(Replay, OrdersTheRulesAsPublished) {
  const spec::Topology topology = Cluster();
  double sums[3] = {};
  for (const bool pinned : {false, true}) {
    const std::vector<TraceJob> tasks = Tasks(pinned);
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      Random random(seed);
      const auto order = InflatedArrivals(tasks, CapacityMilli(topology), random);
      const ReplayRule rules[] = {ReplayRule::kLonghaul, ReplayRule::kBestFit, ReplayRule::kRandom};
      for (size_t i = 0; i < 3; ++i) {
        sums[i] += Replay(topology, tasks, order, rules[i])->allocated[100];
      }
    }
  }
  EXPECT_GT(sums[0], sums[1]);
  EXPECT_GT(sums[1], sums[2]);
}

// What the rule reaches alone is what a cluster gets.
TEST(Replay, TheSchedulerAllocatesAsItsRuleAlone) {
  const spec::Topology topology = Cluster();
  for (const bool pinned : {false, true}) {
    const std::vector<TraceJob> tasks = Tasks(pinned);
    Random random(3);
    const auto order = InflatedArrivals(tasks, CapacityMilli(topology), random);
    const ReplayResult alone = *Replay(topology, tasks, order, ReplayRule::kLonghaul);
    const ReplayResult all = *Replay(topology, tasks, order, ReplayRule::kScheduler);
    EXPECT_EQ(all.allocated, alone.allocated);
    EXPECT_EQ(all.refused, alone.refused);
  }
}

TEST(Replay, IsTheSameForTheSameSeed) {
  const spec::Topology topology = Cluster();
  const std::vector<TraceJob> tasks = Tasks(true);
  Random first(5);
  Random second(5);
  const auto order = InflatedArrivals(tasks, CapacityMilli(topology), first);
  EXPECT_EQ(order, InflatedArrivals(tasks, CapacityMilli(topology), second));
  EXPECT_EQ(Replay(topology, tasks, order, ReplayRule::kLonghaul)->allocated,
            Replay(topology, tasks, order, ReplayRule::kLonghaul)->allocated);
}

TEST(Replay, DropsTasksPinnedToModelsThatAreNotThere) {
  const spec::Topology topology = Cluster();
  const auto tasks = *ReadOpenbTasks(
      "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,1,1,1,1000,X\nb,1,1,1,1000,X|C\n",
      "pods.csv");
  const std::vector<uint32_t> order = {0, 1};
  const ReplayResult result = *Replay(topology, tasks, order, ReplayRule::kLonghaul);
  EXPECT_EQ(result.refused, 1u);
}

TEST(PublishedFgd, QuantisesTheRise) {
  const spec::Topology topology = *spec::Topology::Create(spec::ClosCluster(1, 1, 2));
  State state(topology);
  Shape half;
  half.share = 500;
  const ShapeId id = state.Intern(half);
  const FragmentationTable table(state, MakeTaskMix({{id, 1}}));
  state.Place(1, id, 1, 1);
  // Neither GPU raises the fragmentation, so the first node wins.
  EXPECT_EQ(ChoosePublishedFgd(state, id, table), (SmallChoice{0, 1}));
  EXPECT_EQ(ChooseBestFit(state, id), (SmallChoice{1, 1}));
}

std::string PublishedHeader() {
  std::string header = "workload,sc_policy,tune,seed,total_gpus";
  for (int p = 0; p <= kMaxArrivedPercent; ++p) header += "," + std::to_string(p);
  return header + "\n";
}

std::string PublishedRow(const std::string& start, const std::string& value) {
  std::string row = start;
  for (int p = 0; p <= kMaxArrivedPercent; ++p) row += "," + value;
  return row + "\n";
}

TEST(PublishedCurves, AreMeansOverTheSeeds) {
  const auto curves =
      *ReadPublishedCurves(PublishedHeader() + PublishedRow("a,06-FGD,1.3,42,9", "10.5") +
                               PublishedRow("a,06-FGD,1.3,43,9", "11.5"),
                           "curves.csv");
  ASSERT_EQ(curves.size(), 1u);
  EXPECT_EQ(curves.begin()->second.seeds, 2);
  EXPECT_DOUBLE_EQ(curves.begin()->second.mean[130], 11.0);
}

TEST(PublishedCurves, SayWhereAMistakeIs) {
  EXPECT_THAT(ReadPublishedCurves(PublishedHeader() + PublishedRow("a,b,1.3,42,9", "x"), "c.csv")
                  .status()
                  .message(),
              HasSubstr("c.csv:2:14: 0: 'x' is no percentage"));
  EXPECT_THAT(ReadPublishedCurves("workload,sc_policy,seed\n", "c.csv").status().message(),
              HasSubstr("lacks the column '0'"));
}

}  // namespace
}  // namespace longhaul::scheduler
