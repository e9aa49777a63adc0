// A scheduler that continues in place where a node joins. history_test.cc compares its decisions
// with those of a rebuilt one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/history_draws.h"
#include "scheduler/scheduler_fixture.h"

namespace longhaul::scheduler {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

spec::Topology Changed(const Scheduler& scheduler,
                       const std::function<void(spec::ClusterDeclaration&)>& change) {
  spec::ClusterDeclaration cluster = DeclarationOf(scheduler.topology());
  change(cluster);
  auto topology = spec::Topology::Create(std::move(cluster));
  EXPECT_TRUE(topology.ok()) << topology.status();
  return *std::move(topology);
}

// A twin of node `of` goes before it.
void AddBefore(spec::ClusterDeclaration& cluster, size_t of) {
  spec::DeclaredNode twin = cluster.nodes[of];
  twin.name = "new";
  cluster.nodes.insert(cluster.nodes.begin() + static_cast<std::ptrdiff_t>(of), twin);
}

TEST(Extend, StartsWhatWaitsOnTheNewNodeAndRenumbersTheOthers) {
  World world(1, 2, 1);
  world.Submit("first", 1, 8);
  world.Submit("second", 1, 8);
  world.Submit("third", 1, 8);
  EXPECT_THAT(world.NodesOf("second"), testing::ElementsAre(1u));
  const spec::Topology with =
      Changed(world.scheduler, [](spec::ClusterDeclaration& cluster) { AddBefore(cluster, 1); });
  ASSERT_TRUE(world.scheduler.Extend(with));
  EXPECT_THAT(world.NodesOf("second"), testing::ElementsAre(2u));
  EXPECT_EQ(world.NodeName(2), "node-2");
  world.Round();
  EXPECT_TRUE(world.Runs("third"));
  EXPECT_EQ(world.NodeName(world.NodesOf("third")[0]), "new");
}

TEST(Extend, KeepsWhatIsKnownOfNodesAndLinks) {
  World world(1, 2, 2);
  world.Tell(NodeFaulted{"node-2"});
  world.Tell(NodeChanged{"node-4", spec::NodeCondition::kCordoned});
  world.Tell(DeviceChanged{"node-3", 5, false});
  world.Tell(LinkChanged{kLeafTier, 1, false});
  const spec::Topology with = Changed(world.scheduler, [](spec::ClusterDeclaration& cluster) {
    AddBefore(cluster, 1);
    cluster.nodes[1].domains[0] = "leaf between";
  });
  ASSERT_TRUE(world.scheduler.Extend(with));
  EXPECT_EQ(world.NodeName(1), "node-2");
  EXPECT_EQ(world.NodeName(2), "new");
  EXPECT_LT(world.scheduler.state().health(1), 1'000);
  EXPECT_EQ(world.scheduler.state().health(2), 1'000);
  EXPECT_EQ(world.scheduler.state().node(4).condition, spec::NodeCondition::kCordoned);
  EXPECT_EQ(world.scheduler.state().node(3).unhealthy, 1u << 5);
  ASSERT_EQ(world.scheduler.Links().size(), 1u);
  EXPECT_EQ(world.scheduler.Links()[0].name, "leaf-2");
  EXPECT_EQ(world.scheduler.Links()[0].domain, 2);
  EXPECT_TRUE(world.scheduler.CheckInvariants().ok());
}

TEST(Extend, KeepsAReservationInItsDomain) {
  World world(1, 2, 2);
  world.Submit("long", 2, 8, "", Lasts(hours(9), true));
  world.Submit("short", 1, 8, "", Lasts(minutes(10), true));
  world.Submit("gang", 2, 8, "", [](JobRequest& job) { job.groups[0].required = kLeafTier; });
  const spec::Topology with = Changed(world.scheduler, [](spec::ClusterDeclaration& cluster) {
    AddBefore(cluster, 0);
    cluster.nodes[0].domains[0] = "new leaf";
  });
  ASSERT_TRUE(world.scheduler.Extend(with));
  world.Submit("one", 1, 8, "", Lasts(hours(9)));
  world.Submit("two", 1, 8, "", Lasts(hours(9)));
  EXPECT_TRUE(world.Runs("one")) << "on the new node";
  EXPECT_FALSE(world.Runs("two")) << "the last free node is kept for the gang";
}

TEST(Extend, KeepsAJobOffTheNodeThatRefusedIt) {
  World world(1, 1, 3);
  world.obedient = false;
  world.Submit("pair", 2, 8);
  const uint64_t start = world.decisions.back().transaction;
  const std::vector<NodeIndex> first = world.NodesOf("pair");
  world.Tell(TaskRefused{JobId("pair"), start, 0});
  const std::vector<NodeIndex> second = world.NodesOf("pair");
  ASSERT_NE(first, second);
  const spec::Topology with =
      Changed(world.scheduler, [](spec::ClusterDeclaration& cluster) { AddBefore(cluster, 0); });
  const std::string refused_by = world.NodeName(first[0]);
  const std::string lost = world.NodeName(second[0]);
  ASSERT_TRUE(world.scheduler.Extend(with));
  world.scheduler.Apply(NodeChanged{"new", spec::NodeCondition::kCordoned}, world.now);
  world.Tell(NodeChanged{lost, spec::NodeCondition::kDown});
  for (const NodeIndex node : world.NodesOf("pair")) EXPECT_NE(world.NodeName(node), refused_by);
}

TEST(Extend, LetsAQueueKeepWhatItHoldsAboveALoweredLimit) {
  spec::QueueSpec queue;
  queue.name = "a";
  World world(1, 1, 3, {queue});
  world.Submit("first", 1, 8, "a");
  world.Submit("second", 1, 8, "a");
  spec::SharedAmounts lower = spec::kUnlimitedAmounts;
  lower[0] = 8 * kWholeGpu;
  world.scheduler.Apply(QueueLimitSet{"a", lower}, world.now);
  const spec::Topology with =
      Changed(world.scheduler, [](spec::ClusterDeclaration& cluster) { AddBefore(cluster, 0); });
  ASSERT_TRUE(world.scheduler.Extend(with));
  world.Submit("third", 1, 8, "a");
  EXPECT_TRUE(world.Runs("first") && world.Runs("second"));
  EXPECT_FALSE(world.Runs("third"));
}

TEST(Extend, GivesAnIdleNodeItsKindAndKeepsItsCondition) {
  World world(1, 1, 2);
  world.Tell(NodeChanged{"node-2", spec::NodeCondition::kDown});
  const spec::Topology with = Changed(world.scheduler, [](spec::ClusterDeclaration& cluster) {
    cluster.kinds.push_back(spec::UniformKind("larger", 0, 16, 1, 192'000, 2'048 * 1'024));
    cluster.nodes[1].kind = 1;
  });
  ASSERT_TRUE(world.scheduler.Extend(with));
  world.Submit("large", 1, 16);
  EXPECT_FALSE(world.Runs("large"));
  world.Tell(NodeChanged{"node-2", spec::NodeCondition::kReady});
  EXPECT_TRUE(world.Runs("large"));
}

TEST(Extend, RefusesWhatOnlyARebuildCanDoAndChangesNothing) {
  World world(1, 2, 2);
  world.Submit("runs", 1, 8);
  const uint64_t before = world.scheduler.Fingerprint();
  using Declaration = spec::ClusterDeclaration;
  const struct {
    const char* what;
    void (*change)(Declaration&);
  } kRows[] = {
      {"a node is gone", [](Declaration& cluster) { cluster.nodes.pop_back(); }},
      {"nodes change places",
       [](Declaration& cluster) { std::swap(cluster.nodes[0], cluster.nodes[1]); }},
      {"a node is in another leaf",
       [](Declaration& cluster) { cluster.nodes[1].domains = cluster.nodes[2].domains; }},
      {"a further model",
       [](Declaration& cluster) {
         cluster.models.push_back({"other", 1});
       }},
      {"a further class", [](Declaration& cluster) { cluster.nodes[3].labels["pool"] = "a"; }},
      {"another level", [](Declaration& cluster) { cluster.levels[1] = "pod"; }},
      {"another kind under a task",
       [](Declaration& cluster) { cluster.kinds[cluster.nodes[0].kind].cpu_milli += 1; }},
      {"an idle node has less",
       [](Declaration& cluster) {
         cluster.kinds.push_back(spec::UniformKind("smaller", 0, 4, 1, 192'000, 2'048 * 1'024));
         cluster.nodes[3].kind = 1;
       }},
  };
  for (const auto& row : kRows) {
    EXPECT_FALSE(world.scheduler.Extend(Changed(world.scheduler, row.change))) << row.what;
    EXPECT_EQ(world.scheduler.Fingerprint(), before) << row.what;
  }
}

TEST(Extend, LeavesACopyAsItWas) {
  World world(1, 1, 1);
  world.Submit("runs", 1, 8);
  world.Submit("waits", 1, 8);
  World copy(world.scheduler, world.now);
  const spec::Topology with =
      Changed(world.scheduler, [](spec::ClusterDeclaration& cluster) { AddBefore(cluster, 0); });
  ASSERT_TRUE(world.scheduler.Extend(with));
  copy.Pass(minutes(1));
  copy.Round();
  EXPECT_EQ(copy.scheduler.topology().size(), 1u);
  EXPECT_FALSE(copy.Runs("waits"));
}

}  // namespace
}  // namespace longhaul::scheduler
