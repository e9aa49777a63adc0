// Nodes that others use too: what they use is no room for jobs, and no job loses its place by it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/history_draws.h"
#include "scheduler/scheduler_fixture.h"

namespace longhaul::scheduler {
namespace {

using testing::ElementsAre;

NodeShared Use(const std::string& node, int64_t devices, int64_t cpu_milli = 0) {
  NodeShared use{node};
  use.devices = devices;
  use.cpu_milli = cpu_milli;
  return use;
}

TEST(SharedNode, HasLessRoomUntilTheUseEnds) {
  World world(1, 1, 1);
  world.Tell(Use("node-1", 3));
  world.Submit("large", 1, 6);
  EXPECT_FALSE(world.Runs("large"));
  world.Submit("small", 1, 5);
  EXPECT_TRUE(world.Runs("small"));
  world.End("small");
  world.Tell(Use("node-1", 2));
  EXPECT_TRUE(world.Runs("large"));
}

TEST(SharedNode, LeavesDevicesToTheJobsThatHaveThem) {
  World world(1, 1, 1);
  world.Submit("job", 1, 5);
  const GpuMask held = world.scheduler.TasksOf(JobId("job"))[0].gpus;
  world.Tell(Use("node-1", 100));
  EXPECT_TRUE(world.Runs("job"));
  EXPECT_EQ(CountGpus(world.scheduler.state().use(0).gpus), 3);
  EXPECT_EQ(world.scheduler.state().use(0).gpus & held, 0);
  world.End("job");
  EXPECT_EQ(CountGpus(world.scheduler.state().node(0).free_gpus), 5);
  world.Tell(Use("node-1", 100));
  EXPECT_EQ(CountGpus(world.scheduler.state().node(0).free_gpus), 0);
}

TEST(SharedNode, WithoutFreeCpuTakesTasksThatNeedNone) {
  World world(1, 1, 1);
  world.Tell(Use("node-1", 0, int64_t{1} << 60));
  EXPECT_LT(world.scheduler.state().node(0).free_cpu_milli, 0);
  world.Submit("cpu", 1, 1, "", [](JobRequest& job) { job.groups[0].shape.cpu_milli = 1; });
  EXPECT_FALSE(world.Runs("cpu"));
  world.Submit("none", 1, 1);
  EXPECT_TRUE(world.Runs("none"));
  world.Tell(Use("node-1", 0));
  EXPECT_TRUE(world.Runs("cpu"));
}

TEST(SharedNode, StaysSharedInAnotherCluster) {
  World world(1, 1, 2);
  world.Submit("job", 1, 4);
  const NodeIndex at = world.NodesOf("job")[0];
  world.Tell(Use(world.NodeName(at), 3, 1'000));
  const NodeUse before = world.scheduler.state().use(at);
  spec::ClusterDeclaration cluster = DeclarationOf(world.scheduler.topology());
  spec::DeclaredNode first = cluster.nodes[0];
  first.name = "first";
  cluster.nodes.insert(cluster.nodes.begin(), first);
  const spec::Topology larger = *spec::Topology::Create(cluster);
  const auto rebuilt = Scheduler::Rebuild(world.scheduler, larger, {}, Policy());
  ASSERT_TRUE(rebuilt.ok());
  EXPECT_EQ(rebuilt->state().use(at + 1), before);
  EXPECT_EQ(rebuilt->state().use(0), NodeUse());
  ASSERT_TRUE(world.scheduler.Extend(larger));
  EXPECT_EQ(world.scheduler.state().use(at + 1), before);
  EXPECT_TRUE(world.scheduler.CheckInvariants().ok());
}

TEST(SharedNode, OfAnotherKindInAnotherClusterStaysShared) {
  World world(1, 1, 2);
  world.Tell(Use("node-2", 7, 1'000));
  spec::ClusterDeclaration cluster = DeclarationOf(world.scheduler.topology());
  cluster.kinds.push_back(spec::UniformKind("larger", 0, 16, 1, 1'000'000, 9'000'000));
  cluster.nodes[1].kind = static_cast<uint32_t>(cluster.kinds.size() - 1);
  ASSERT_TRUE(world.scheduler.Extend(*spec::Topology::Create(cluster)));
  EXPECT_EQ(CountGpus(world.scheduler.state().node(1).free_gpus), 9);
  EXPECT_EQ(world.scheduler.state().node(1).free_cpu_milli, 999'000);
  EXPECT_TRUE(world.scheduler.CheckInvariants().ok());
}

TEST(Job, ThatPreemptsNobodyWaitsWhereAnotherOfItsPriorityWouldNot) {
  World world(1, 1, 1);
  world.Submit("low", 1, 8);
  const auto high = [](JobRequest& job) { job.priority = 10; };
  world.Submit("peaceful", 1, 8, "", [&](JobRequest& job) {
    high(job);
    job.preempts = false;
  });
  EXPECT_TRUE(world.Runs("low"));
  world.Submit("high", 1, 8, "", high);
  EXPECT_FALSE(world.Runs("low"));
  EXPECT_FALSE(world.Runs("peaceful"));
  EXPECT_TRUE(world.Runs("high"));
}

TEST(EndedJob, ThatIsNotObservedTeachesNoDuration) {
  const auto length_after = [](bool observed) {
    World world(1, 1, 1);
    for (int i = 0; i < 20; ++i) {
      const std::string name = "job-" + std::to_string(i);
      world.Submit(name, 1, 1);
      world.Pass(std::chrono::hours(5));
      world.Tell(JobEnded{JobId(name), observed});
    }
    world.Submit("next", 1, 1);
    return world.scheduler.OutlookOf(JobId("next"))->known;
  };
  EXPECT_TRUE(length_after(true));
  EXPECT_FALSE(length_after(false));
}

}  // namespace
}  // namespace longhaul::scheduler
