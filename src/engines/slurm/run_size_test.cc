#include "engines/slurm/run_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::engines::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Number = std::optional<uint32_t>;

spec::JobSpec Job(Number minimum, Number nodes, Number maximum) {
  spec::JobSpec job;
  job.resources.minimum_nodes = minimum;
  job.resources.nodes = nodes;
  job.resources.maximum_nodes = maximum;
  job.resources.processes_per_node = 8;
  return job;
}

TEST(RunSize, APartHasNodesAndOptionsOfSbatch) {
  const auto part = ParsePart(" --constraint=h100  --nodes=2 --exclusive");
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->nodes, 2u);
  EXPECT_THAT(part->settings, ElementsAre("--constraint=h100", "--exclusive"));
  const struct {
    const char* text;
    const char* message;
  } kRows[] = {{"", "add --nodes=N"},
               {"--constraint=h100", "add --nodes=N"},
               {"--nodes=0", "'0' nodes: expected 1 to 100,000"},
               {"--nodes=1-4", "'1-4' nodes"},
               {"--nodes=100001", "'100001' nodes"},
               {"--nodes=1 --nodes=2", "two options --nodes"},
               {"--nodes=2 h100", "'h100' is no option of sbatch"},
               {"--nodes=2 --comment=x", "--comment=x is set by Longhaul"},
               {"--nodes=2 --array=1-4", "--array=1-4 is set by Longhaul"},
               {"--nodes=2 -N4", "-N4 is set by Longhaul"}};
  for (const auto& row : kRows) {
    EXPECT_THAT(ParsePart(row.text).status().message(), HasSubstr(row.message)) << row.text;
  }
  EXPECT_THAT(*ParseGrowth("--qos=spare --nice=5"), ElementsAre("--qos=spare", "--nice=5"));
  EXPECT_FALSE(ParseGrowth("--nodes=2").ok());
}

TEST(Setting, OfAnSbatchThatBlocksIsRefused) {
  for (const char* text : {"--wait", "-W"}) {
    EXPECT_THAT(CheckSetting(text).message(), HasSubstr("use --wait of longhaul slurm submit"));
  }
  EXPECT_TRUE(CheckSetting("--wait-all-nodes=1").ok());
}

TEST(RunSize, IsThatOfTheJob) {
  const struct {
    spec::JobSpec job;
    std::vector<Part> parts;
    std::vector<uint32_t> start;
    uint32_t usual, maximum, group;
  } kRows[] = {
      {Job({}, {}, {}), {}, {2}, 2, 2, 1},
      {Job({}, 4, {}), {}, {4}, 4, 4, 1},
      {Job(1, 2, 3), {}, {1}, 2, 3, 1},
      {Job({}, 2, 4), {}, {2}, 2, 4, 1},
      {Job(10, 40, 42), {}, {10}, 40, 42, 2},           // 32 nodes more, in 16 jobs
      {Job(100, 200, 1000), {}, {100}, 200, 1000, 57},  // 900 in 16, rounded up
      {Job({}, {}, {}), {{2, {}}, {1, {}}}, {2, 1}, 3, 3, 1},
      {Job({}, 3, 5), {{2, {}}, {1, {}}}, {2, 1}, 3, 5, 1},
      {Job(3, 4, 5), {{2, {}}, {1, {}}}, {2, 1}, 4, 5, 1},
  };
  for (const auto& row : kRows) {
    const auto size = SizeOf(row.job, std::nullopt, row.parts);
    ASSERT_TRUE(size.ok()) << size.status();
    EXPECT_EQ(size->parts, row.start);
    EXPECT_EQ(size->usual, row.usual);
    EXPECT_EQ(size->maximum, row.maximum);
    EXPECT_EQ(size->group, row.group);
    EXPECT_EQ(size->elastic(), size->minimum() < row.maximum);
  }
}

TEST(RunSize, ChangesByWholeReplicas) {
  spec::JobSpec job = Job(2, 4, 40);
  job.layout.tensor = 8;
  job.layout.pipeline = 2;
  const auto size = SizeOf(job, std::nullopt, {});
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(size->step, 2u);
  EXPECT_EQ(size->group, 4u) << "38 nodes in 16 jobs are 3 each, which are no whole replicas";
}

TEST(RunSize, RefusesPartsThatAreNotTheJobsStart) {
  const std::vector<Part> parts = {{2, {}}, {1, {}}};
  EXPECT_THAT(SizeOf(Job({}, 4, {}), std::nullopt, parts).status().message(),
              HasSubstr("the parts have 3 nodes, and resources.nodes is 4: make both equal"));
  EXPECT_THAT(SizeOf(Job(2, 4, {}), std::nullopt, parts).status().message(),
              HasSubstr("the parts have 3 nodes, and resources.minimum_nodes is 2"));
}

TEST(RunSize, ATargetLiesWithinTheBounds) {
  RunSize size;
  size.parts = {2, 2};
  size.maximum = 8;
  size.step = 2;
  const std::string bounds = BoundsText(size);
  for (const uint32_t good : {4u, 6u, 8u}) EXPECT_TRUE(CheckTarget(bounds, good).ok()) << good;
  for (const uint32_t bad : {0u, 2u, 5u, 10u}) {
    EXPECT_THAT(CheckTarget(bounds, bad).message(),
                HasSubstr(std::to_string(bad) + " nodes: this run takes 4 to 8, in steps of 2"));
  }
  EXPECT_THAT(CheckTarget(bounds, 2).message(), HasSubstr("--minimum-nodes 2 --run-dir RUN_DIR"));
  EXPECT_THAT(CheckTarget(bounds, 10).message(), HasSubstr("--maximum-nodes 10 --run-dir RUN_DIR"));
  EXPECT_THAT(CheckTarget(bounds, 5).message(), Not(HasSubstr("submit it again")));
  for (const char* text : {"", "4", "4 8", "4 8 0", "4 8 2 1", "4 8 x"}) {
    EXPECT_EQ(CheckTarget(text, 4).code(), Code::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace longhaul::engines::slurm
