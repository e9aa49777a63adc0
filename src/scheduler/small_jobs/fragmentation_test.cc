#include "scheduler/small_jobs/fragmentation.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace longhaul::scheduler {
namespace {

spec::Topology TwoModels() {
  spec::ClusterDeclaration cluster;
  cluster.models = {{"A", 0}, {"B", 0}};
  cluster.kinds = {spec::UniformKind("a", 0, 4, 1, 40'000, 64),
                   spec::UniformKind("b", 1, 2, 1, 8'000, 64)};
  for (uint32_t i = 0; i < 4; ++i) {
    spec::DeclaredNode node;
    node.name = "n" + std::to_string(i);
    node.kind = i % 2;
    node.domains = {"", ""};
    if (i == 3) node.taints = {"t"};
    cluster.nodes.push_back(node);
  }
  return *spec::Topology::Create(cluster);
}

Shape Need(int gpus, int share, int cpu_milli, uint64_t models = kAnyModel) {
  Shape shape;
  shape.gpus = static_cast<uint8_t>(gpus);
  shape.share = static_cast<uint16_t>(share);
  shape.cpu_milli = cpu_milli;
  shape.models = models;
  return shape;
}

// The definition, shape by shape.
int64_t Plain(const State& state, const TaskMix& mix, const NodeState& node) {
  int64_t sum = 0;
  for (const MixEntry& entry : mix.typical_entries()) {
    const Shape& shape = state.shape(entry.shape);
    int whole = 0;
    int most = 0;
    for (const int16_t free : node.free_share) {
      whole += free == kWholeGpu ? 1 : 0;
      most = std::max<int>(most, free);
    }
    const bool runs = state.Allows(entry.shape, node.group) &&
                      node.free_cpu_milli >= shape.cpu_milli && whole >= shape.gpus &&
                      most >= shape.share;
    for (const int16_t free : node.free_share) {
      const int need = shape.gpus > 0 ? kWholeGpu : shape.share;
      if (free > 0 && (!runs || free < need)) sum += entry.weight * free;
    }
  }
  return sum;
}

TEST(Fragmentation, IsWorkedByHand) {
  const spec::Topology topology = TwoModels();
  State state(topology);
  const TaskMix mix = MakeTaskMix({{state.Intern(Need(0, 500, 1'000)), 30},
                                   {state.Intern(Need(2, 0, 1'000)), 20},
                                   {state.Intern(Need(0, 0, 50'000)), 50}});
  const FragmentationTable table(state, mix);
  EXPECT_EQ(table.weight(), 100);
  const std::array<int16_t, 4> shares = {1'000, 1'000, 300, 700};
  // Halves can't use 300; pairs can't use 300 and 700; nobody has 50 cores, so 3,000 are lost.
  EXPECT_EQ(table.Of(0, 40'000, shares), 30 * 300 + 20 * 1'000 + 50 * 3'000);
  // Without cpu nobody runs.
  EXPECT_EQ(table.Of(0, 999, shares), 100 * 3'000);
  // With one whole GPU pairs don't run.
  const std::array<int16_t, 2> pair = {1'000, 400};
  EXPECT_EQ(table.Of(0, 40'000, pair), 30 * 400 + 20 * 1'400 + 50 * 1'400);
  const std::array<int16_t, 2> broken = {-400, 0};
  EXPECT_EQ(table.Of(0, 40'000, broken), 0);
}

TEST(Fragmentation, AgreesWithTheDefinitionOnRandomNodes) {
  const spec::Topology topology = TwoModels();
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    State state(topology);
    std::vector<MixEntry> counts;
    const auto kinds = 1 + random.Below(12);
    for (uint64_t i = 0; i < kinds; ++i) {
      const auto type = random.Below(3);
      Shape shape = Need(type == 1 ? 1 + static_cast<int>(random.Below(4)) : 0,
                         type == 2 ? 1 + static_cast<int>(random.Below(999)) : 0,
                         static_cast<int>(random.Below(9)) * 1'000, 1 + random.Below(3));
      if (random.Below(4) == 0) shape.classes = ClassSet{{1}};
      const ShapeId id = state.Intern(shape);
      if (static_cast<uint32_t>(id) == counts.size()) {
        counts.push_back({id, 1 + static_cast<int64_t>(random.Below(99))});
      }
    }
    const TaskMix mix = MakeTaskMix(counts);
    const FragmentationTable table(state, mix);
    for (int i = 0; i < 20; ++i) {
      NodeState node = state.node(static_cast<NodeIndex>(random.Below(4)));
      node.free_cpu_milli = static_cast<int32_t>(random.Below(10'000));
      for (size_t d = 0; d < node.devices; ++d) {
        if (random.Below(2) == 0) node.free_share[d] = static_cast<int16_t>(random.Below(1'000));
      }
      ASSERT_EQ(table.Of(node), Plain(state, mix, node)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace longhaul::scheduler
