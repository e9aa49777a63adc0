#include "scheduler/state/state.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/random.h"

namespace longhaul::scheduler {
namespace {

using spec::NodeCondition;

Shape Gpus(int gpus, int cpu_milli = 0) {
  Shape shape;
  shape.gpus = static_cast<uint8_t>(gpus);
  shape.cpu_milli = cpu_milli;
  return shape;
}

Shape Share(int share, int memory_mib = 0) {
  Shape shape;
  shape.share = static_cast<uint16_t>(share);
  shape.gpu_memory_mib = memory_mib;
  return shape;
}

// Two leaves of two hosts with four GPUs of 1,000 MiB in two islands, and a leaf with a host that
// has no GPUs; labelled in two rows.
spec::Topology Small() {
  spec::ClusterDeclaration cluster;
  cluster.counted = {"rdma"};
  cluster.groupings = {"row"};
  cluster.models = {{"A", 1'000}};
  cluster.kinds = {spec::UniformKind("k", 0, 4, 2, 8'000, 64), {}};
  cluster.kinds[0].counted[0] = 100;
  cluster.kinds[1].name = "cpu";
  cluster.kinds[1].cpu_milli = 8'000;
  for (uint32_t i = 0; i < 5; ++i) {
    spec::DeclaredNode node;
    node.name = "n" + std::to_string(i);
    node.kind = i == 4 ? 1 : 0;
    node.domains = {"l" + std::to_string(i / 2), "b"};
    node.labels["row"] = std::to_string(i % 2);
    cluster.nodes.push_back(node);
  }
  return *spec::Topology::Create(cluster);
}

TEST(State, CountsWhatIsFreeInEachDomain) {
  const spec::Topology topology = Small();
  State state(topology, true);
  EXPECT_EQ(state.cluster().free_milli, 16'000);
  EXPECT_EQ(state.cluster().free_hosts, 4u);
  EXPECT_EQ(state.cluster().ready_hosts, 5u);
  const ShapeId two = state.Intern(Gpus(2));
  const ShapeId half = state.Intern(Share(500));
  state.Place(0, two, 0b0011, 1);
  state.Place(3, half, 0b0001, 2);
  state.Commit();
  EXPECT_EQ(state.domain(0, 0).free_gpus, 6u);
  EXPECT_EQ(state.domain(0, 0).free_hosts, 1u);
  EXPECT_EQ(state.domain(0, 0).hosts_with[2], 1u);
  EXPECT_EQ(state.domain(0, 1).free_milli, 7'500);
  EXPECT_EQ(state.domain(0, 1).free_gpus, 7u);
  EXPECT_EQ(state.cluster().free_milli, 13'500);
  EXPECT_EQ(state.grouping(0)[0].free_gpus, 6u);  // nodes 0, 2 and 4
}

TEST(State, CountsOnlyNodesThatAreReady) {
  const spec::Topology topology = Small();
  State state(topology, true);
  state.SetCondition(1, NodeCondition::kCordoned);
  state.SetDeviceHealthy(0, 3, false);
  state.Commit();
  EXPECT_EQ(state.domain(0, 0).free_milli, 3'000);
  EXPECT_EQ(state.domain(0, 0).free_hosts, 0u);
  EXPECT_EQ(state.domain(0, 0).ready_hosts, 1u);
  EXPECT_FALSE(state.Fits(0, state.Intern(Gpus(4))));
  EXPECT_TRUE(state.Fits(0, state.Intern(Gpus(3))));
}

TEST(State, NeverTakesAFractionFromTwoGpus) {
  const spec::Topology topology = Small();
  State state(topology, true);
  const ShapeId most = state.Intern(Share(600));
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(state.Fits(0, most));
    const GpuMask gpus = state.ChooseGpus(0, most);
    EXPECT_EQ(std::popcount(gpus), 1);
    state.Place(0, most, gpus, 1);
  }
  // 1,600 thousandths are free, and no GPU has 600 of them.
  EXPECT_EQ(state.node(0).free_milli(), 1'600);
  EXPECT_FALSE(state.Fits(0, most));
  EXPECT_EQ(state.Slots(0, most, 9), 0u);
}

// KAI #306: the share fits and the memory doesn't; share on one GPU and memory on another is no
// fit either.
TEST(State, AFractionNeedsShareAndMemoryOnTheSameGpu) {
  const spec::Topology topology = Small();
  State state(topology, true);
  state.Place(0, state.Intern(Share(900, 100)), 0b0001, 1);
  state.Place(0, state.Intern(Share(100, 900)), 0b0010, 1);
  state.Place(0, state.Intern(Gpus(2)), 0b1100, 1);
  EXPECT_FALSE(state.Fits(0, state.Intern(Share(500, 500))));
  EXPECT_TRUE(state.Fits(0, state.Intern(Share(100, 900))));
  EXPECT_TRUE(state.Fits(0, state.Intern(Share(900, 100))));
}

TEST(State, CountsSlotsByTheScarcestResource) {
  const spec::Topology topology = Small();
  State state(topology, true);
  EXPECT_EQ(state.Slots(0, state.Intern(Gpus(1)), 99), 4u);
  EXPECT_EQ(state.Slots(0, state.Intern(Gpus(1, 3'000)), 99), 2u);
  EXPECT_EQ(state.Slots(0, state.Intern(Share(300)), 99), 12u);
  EXPECT_EQ(state.Slots(0, state.Intern(Share(300, 400)), 99), 8u);
  EXPECT_EQ(state.Slots(0, state.Intern(Share(300)), 5), 5u);
  Shape nic = Gpus(1);
  nic.counted[0] = 60;
  EXPECT_EQ(state.Slots(0, state.Intern(nic), 99), 1u);
  EXPECT_EQ(state.Slots(4, state.Intern(Gpus(1)), 99), 0u);  // no devices there
  Shape host;
  host.cpu_milli = 1'000;
  EXPECT_EQ(state.Slots(4, state.Intern(host), 99), 8u);
  state.Place(0, state.Intern(Gpus(4)), 0b1111, 1);
  EXPECT_EQ(state.SlotsWhenEmpty(0, state.Intern(Gpus(1)), 99), 4u);
}

TEST(State, ChoosesGpusOfOneIslandAndTheFullestGpu) {
  const spec::Topology topology = Small();  // islands {0, 1} and {2, 3}
  State state(topology, true);
  state.Place(0, state.Intern(Gpus(1)), 0b0001, 1);
  EXPECT_EQ(state.ChooseGpus(0, state.Intern(Gpus(2))), 0b1100);
  EXPECT_EQ(state.ChooseGpus(0, state.Intern(Gpus(1))), 0b0010);  // leaves an island whole
  EXPECT_EQ(state.ChooseGpus(0, state.Intern(Gpus(3))), 0b1110);
  state.Place(0, state.Intern(Share(400)), 0b0100, 1);
  EXPECT_EQ(state.ChooseGpus(0, state.Intern(Share(500))), 0b0100);
  EXPECT_EQ(state.ChooseGpus(0, state.Intern(Share(700))), 0b0010);
}

TEST(State, RollsNestedAttemptsBackToTheByte) {
  const spec::Topology topology = Small();
  State state(topology, true);
  const ShapeId two = state.Intern(Gpus(2));
  const TaskSlot old = state.Place(0, two, 0b0011, 1);
  state.Commit();
  const uint64_t before = state.Fingerprint();
  const Savepoint outer = state.Save();
  state.Remove(old);
  const TaskSlot moved = state.Place(1, two, 0b1100, 1);
  const uint64_t between = state.Fingerprint();
  const Savepoint inner = state.Save();
  state.Remove(moved);
  state.Place(0, two, 0b1100, 7);
  state.SetCondition(2, NodeCondition::kDown);
  state.RollBack(inner);
  EXPECT_EQ(state.Fingerprint(), between);
  state.RollBack(outer);
  EXPECT_EQ(state.Fingerprint(), before);
  EXPECT_EQ(state.task(old).owner, 1u);
  EXPECT_EQ(state.Recount(), "");
}

TEST(State, RaisesAVersionOnlyWhereSomethingWasFreedForGood) {
  const spec::Topology topology = Small();
  State state(topology, true);
  const TaskSlot task = state.Place(0, state.Intern(Gpus(1)), 1, 1);
  state.Commit();
  EXPECT_EQ(state.domain(0, 0).version, 0u);
  const Savepoint attempt = state.Save();
  state.Remove(task);
  state.RollBack(attempt);
  state.Commit();
  EXPECT_EQ(state.domain(0, 0).version, 0u);
  state.Remove(task);
  state.Commit();
  EXPECT_EQ(state.domain(0, 0).version, 1u);
  EXPECT_EQ(state.domain(0, 1).version, 0u);
  EXPECT_EQ(state.cluster().version, 1u);
}

TEST(State, ACopyGoesItsOwnWay) {
  const spec::Topology topology = Small();
  State state(topology, true);
  const ShapeId one = state.Intern(Gpus(1));
  const uint64_t before = state.Fingerprint();
  State what_if = state;
  what_if.Place(0, one, 1, 1);
  what_if.Intern(Gpus(3));
  what_if.Commit();
  EXPECT_EQ(state.Fingerprint(), before);
  EXPECT_EQ(state.shape_count(), 1u);
  EXPECT_NE(what_if.Fingerprint(), before);
}

// One random change: places, removals, conditions and health.
void Step(State& state, Random& random, std::vector<TaskSlot>& tasks,
          std::span<const ShapeId> ids) {
  const auto node = static_cast<NodeIndex>(random.Below(state.size()));
  switch (random.Below(8)) {
    case 0:
      return state.SetCondition(node, static_cast<NodeCondition>(random.Below(6)));
    case 1:
      if (state.node(node).devices == 0) return;
      return state.SetDeviceHealthy(node, static_cast<uint32_t>(random.Below(4)),
                                    random.Below(2) == 0);
    case 2:
    case 3:
    case 4:
      if (tasks.empty()) return;
      std::swap(tasks[random.Below(tasks.size())], tasks.back());
      state.Remove(tasks.back());
      tasks.pop_back();
      return;
    default:
      const ShapeId id = ids[random.Below(ids.size())];
      if (!state.Fits(node, id)) return;
      tasks.push_back(state.Place(node, id, state.ChooseGpus(node, id), 1 + random.Below(9)));
  }
}

TEST(State, HoldsItsInvariantsOverRandomHistories) {
  const spec::Topology topology = Small();
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    State state(topology, false);
    Shape host;
    host.cpu_milli = 700;
    host.counted[0] = 9;
    std::vector<ShapeId> ids;
    for (const Shape& shape : {Gpus(1, 500), Gpus(2), Gpus(4), Share(300, 200), Share(700), host}) {
      ids.push_back(state.Intern(shape));
    }
    std::vector<TaskSlot> tasks;
    for (int round = 0; round < 20; ++round) {
      const uint64_t before = state.Fingerprint();
      const std::vector<TaskSlot> kept = tasks;
      const Savepoint attempt = state.Save();
      const auto steps = 1 + random.Below(12);
      for (uint64_t i = 0; i < steps; ++i) Step(state, random, tasks, ids);
      if (random.Below(2) == 0) {
        state.RollBack(attempt);
        tasks = kept;
        ASSERT_EQ(state.Fingerprint(), before);
      } else if (random.Below(2) == 0) {
        state.Commit();
      }
      ASSERT_EQ(state.Recount(), "");
      ASSERT_EQ(state.task_count(), tasks.size());
    }
  }
}

}  // namespace
}  // namespace longhaul::scheduler
