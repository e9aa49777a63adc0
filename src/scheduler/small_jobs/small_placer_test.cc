#include "scheduler/small_jobs/small_placer.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace longhaul::scheduler {
namespace {

using spec::NodeCondition;

// 150 nodes of three models in leaves of 10; some have a label.
spec::Topology Mixed() {
  spec::ClusterDeclaration cluster;
  cluster.models = {{"A", 80'000}, {"B", 16'000}, {"C", 0}};
  cluster.kinds = {spec::UniformKind("a", 0, 8, 2, 96'000, 4'000),
                   spec::UniformKind("b", 1, 4, 4, 32'000, 2'000),
                   spec::UniformKind("c", 2, 2, 1, 64'000, 1'000),
                   {}};
  cluster.kinds[3].name = "cpu";
  cluster.kinds[3].cpu_milli = 64'000;
  for (uint32_t i = 0; i < 150; ++i) {
    spec::DeclaredNode node;
    node.name = "n" + std::to_string(i);
    node.kind = i % 4;
    node.domains = {"l" + std::to_string(i / 10), "b" + std::to_string(i / 50)};
    if (i % 5 == 0) node.labels["pool"] = "dev";
    cluster.nodes.push_back(node);
  }
  return *spec::Topology::Create(cluster);
}

std::vector<ShapeId> Shapes(State& state) {
  std::vector<ShapeId> ids;
  for (const int gpus : {0, 1, 2, 8}) {
    for (const int share : {0, 110, 470, 810}) {
      if (gpus > 0 && share > 0) continue;
      for (const uint64_t models : {kAnyModel, uint64_t{0b001}, uint64_t{0b110}}) {
        Shape shape;
        shape.gpus = static_cast<uint8_t>(gpus);
        shape.share = static_cast<uint16_t>(share);
        shape.models = models;
        shape.cpu_milli = 1'000 + 3'000 * gpus;
        if (share == 470) shape.gpu_memory_mib = 9'000;
        if (share == 110) shape.classes = ClassSet{{1}};
        ids.push_back(state.Intern(shape));
      }
    }
  }
  return ids;
}

TaskMix MixOf(const std::vector<ShapeId>& ids, Random& random) {
  std::vector<MixEntry> counts;
  for (const ShapeId id : ids) counts.push_back({id, static_cast<int64_t>(random.Below(50))});
  std::sort(counts.begin(), counts.end(),
            [](const MixEntry& a, const MixEntry& b) { return a.shape < b.shape; });
  counts.erase(std::unique(counts.begin(), counts.end(),
                           [](const MixEntry& a, const MixEntry& b) { return a.shape == b.shape; }),
               counts.end());
  return MakeTaskMix(std::move(counts));
}

void ChangeSomething(State& state, Random& random, std::vector<TaskSlot>& tasks) {
  const auto node = static_cast<NodeIndex>(random.Below(state.size()));
  const auto what = random.Below(20);
  if (what == 0) {
    state.SetCondition(node, static_cast<NodeCondition>(random.Below(6)));
  } else if (what == 1 && state.node(node).devices > 0) {
    state.SetDeviceHealthy(node, static_cast<uint32_t>(random.Below(state.node(node).devices)),
                           random.Below(2) == 0);
  } else if (what == 2) {
    state.SetHealth(node, static_cast<uint16_t>(random.Below(1'001)));
  } else if (what < 8 && !tasks.empty()) {
    std::swap(tasks[random.Below(tasks.size())], tasks.back());
    state.Remove(tasks.back());
    tasks.pop_back();
  }
}

// The indexes are only a faster way to the same answer, whatever happened in between.
TEST(SmallPlacer, PicksWhatAFullScanPicks) {
  const spec::Topology topology = Mixed();
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    State state(topology, false);
    const std::vector<ShapeId> ids = Shapes(state);
    SmallJobPolicy policy;
    if (seed % 3 == 0) policy.holes = 2'000;
    SmallPlacer placer(state, MixOf(ids, random), policy, {{1, 5}, {4, 3}, {8, 2}});
    std::vector<TaskSlot> tasks;
    uint64_t placed = 0;
    for (int i = 0; i < 1'500; ++i) {
      if (i == 700) placer.SetMix(state, MixOf(ids, random));
      const ShapeId id = ids[random.Below(ids.size())];
      const auto choice = placer.Pick(state, id);
      ASSERT_EQ(choice, placer.Scan(state, id)) << "step " << i;
      if (choice) {
        const Savepoint attempt = state.Save();
        tasks.push_back(state.Place(choice->node, id, choice->gpus, 1));
        ++placed;
        if (random.Below(5) == 0) {
          state.RollBack(attempt);
          tasks.pop_back();
        } else {
          state.Commit();
        }
      }
      ChangeSomething(state, random, tasks);
      state.Commit();
    }
    ASSERT_GT(placed, 500u);
    ASSERT_EQ(state.Recount(), "");
  }
}

TEST(SmallPlacer, FollowsAStateThatRanFarAhead) {
  const spec::Topology topology = Mixed();
  State state(topology, false);
  const std::vector<ShapeId> ids = Shapes(state);
  Random random(1);
  SmallPlacer placer(state, MixOf(ids, random));
  ASSERT_TRUE(placer.Pick(state, ids[4]));
  // The node that was best goes bad, and then so much happens elsewhere that it is forgotten.
  const NodeIndex best = placer.Pick(state, ids[4])->node;
  state.SetCondition(best, NodeCondition::kDown);
  const NodeIndex other = best == 0 ? 1 : 0;
  for (uint64_t i = 0; i < State::kKeptChanges + 10; ++i) {
    state.SetHealth(other, static_cast<uint16_t>(i % 997));
  }
  state.Commit();
  EXPECT_EQ(placer.Fragmentation(state), SmallPlacer(state, placer.mix()).Fragmentation(state));
  EXPECT_EQ(placer.Pick(state, ids[4]), placer.Scan(state, ids[4]));
}

// A what-if question: state and placer are copied together, and each pair goes its own way.
TEST(SmallPlacer, ACopyFollowsTheCopyOfItsState) {
  const spec::Topology topology = Mixed();
  State state(topology, false);
  const std::vector<ShapeId> ids = Shapes(state);
  Random random(3);
  SmallPlacer placer(state, MixOf(ids, random));
  for (int round = 0; round < 20; ++round) {
    State what_if = state;
    SmallPlacer copy = placer;
    for (int i = 0; i < 40; ++i) {
      State& changed = i % 2 == 0 ? state : what_if;
      SmallPlacer& follower = i % 2 == 0 ? placer : copy;
      const ShapeId id = ids[random.Below(ids.size())];
      const auto choice = follower.Pick(changed, id);
      ASSERT_EQ(choice, follower.Scan(changed, id));
      if (choice) changed.Place(choice->node, id, choice->gpus, 1);
    }
  }
}

TEST(SmallPlacer, FindsNothingWhereNothingFits) {
  const spec::Topology topology = Mixed();
  State state(topology, false);
  Shape shape;
  shape.gpus = 8;
  shape.models = 0b110;  // nodes of 4 and 2 GPUs
  const ShapeId id = state.Intern(shape);
  SmallPlacer placer(state, {});
  EXPECT_EQ(placer.Pick(state, id), std::nullopt);
  EXPECT_EQ(placer.Scan(state, id), std::nullopt);
}

TEST(SmallPlacer, LeavesThePinnedModelToThoseWhoNeedIt) {
  const spec::Topology topology = Mixed();
  State state(topology, false);
  Shape any;
  any.gpus = 1;
  Shape pinned = any;
  pinned.models = 0b001;
  const ShapeId free = state.Intern(any);
  const ShapeId bound = state.Intern(pinned);
  SmallPlacer placer(state, MakeTaskMix({{free, 50}, {bound, 50}}));
  for (int i = 0; i < 40; ++i) {
    const auto choice = placer.Pick(state, free);
    ASSERT_TRUE(choice);
    EXPECT_NE(state.group_model(state.node(choice->node).group), 0);
    state.Place(choice->node, free, choice->gpus, 1);
  }
  EXPECT_EQ(state.group_model(state.node(placer.Pick(state, bound)->node).group), 0);
}

// A node that is ready and broken is always free; its health keeps work away.
TEST(SmallPlacer, AvoidsNodesOfPoorHealth) {
  const spec::Topology topology = Mixed();
  State state(topology, false);
  Shape any;
  any.gpus = 1;
  const ShapeId id = state.Intern(any);
  SmallPlacer placer(state, MakeTaskMix({{id, 1}}));
  const NodeIndex usual = placer.Pick(state, id)->node;
  state.SetHealth(usual, 500);
  EXPECT_NE(placer.Pick(state, id)->node, usual);
}

// A small job breaks a leaf that gangs can't use any more rather than a whole one.
TEST(SmallPlacer, KeepsHolesForGangs) {
  const spec::Topology topology = *spec::Topology::Create(spec::ClosCluster(1, 2, 4));
  State state(topology, false);
  Shape whole_host;
  whole_host.gpus = 8;
  Shape one;
  one.gpus = 1;
  const ShapeId gang = state.Intern(whole_host);
  const ShapeId small = state.Intern(one);
  state.Place(7, gang, 0xff, 1);  // the second leaf has 3 of 4 hosts free
  state.Commit();
  SmallPlacer plain(state, MakeTaskMix({{small, 1}}));
  EXPECT_EQ(plain.Pick(state, small)->node, 0u);
  SmallJobPolicy policy;
  policy.holes = 1'000;
  SmallPlacer careful(state, MakeTaskMix({{small, 1}}), policy, {{4, 1}});
  EXPECT_EQ(careful.Pick(state, small)->node, 4u);
}

TEST(SmallPlacer, SumsTheFragmentationOfAllNodes) {
  const spec::Topology topology = *spec::Topology::Create(spec::ClosCluster(1, 1, 2));
  State state(topology, false);
  Shape two;
  two.gpus = 2;
  Shape half;
  half.share = 500;
  const ShapeId id = state.Intern(two);
  const ShapeId part = state.Intern(half);
  SmallPlacer placer(state, MakeTaskMix({{id, 10}}));
  EXPECT_EQ(placer.Fragmentation(state), 0);
  state.Place(0, part, 1, 1);
  EXPECT_EQ(placer.Fragmentation(state), 10 * 500);
  state.SetCondition(0, NodeCondition::kDown);
  EXPECT_EQ(placer.Fragmentation(state), 0);
}

}  // namespace
}  // namespace longhaul::scheduler
