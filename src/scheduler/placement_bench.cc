// Placing on 2,048 nodes, given in the worst order for the sort; the bar is 1 ms.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>

#include "scheduler/placement.h"

namespace longhaul::scheduler {
namespace {

std::vector<NodeView> Shuffled() {
  std::vector<NodeView> nodes;
  for (int i = 1; i <= 2'048; ++i) {
    nodes.push_back({NodeId("node-" + std::to_string(i)), 8, true, "", 8});
  }
  std::mt19937_64 rng(1);
  std::shuffle(nodes.begin(), nodes.end(), rng);
  return nodes;
}

void PlaceOn2048Nodes(benchmark::State& state) {
  const std::vector<NodeView> nodes = Shuffled();
  for (auto _ : state) {
    benchmark::DoNotOptimize(PlaceGang(nodes, static_cast<uint32_t>(state.range(0)), 8));
  }
}
BENCHMARK(PlaceOn2048Nodes)
    ->Arg(2)
    ->Arg(256)
    ->Arg(2'048)
    ->Arg(4'096)
    ->Unit(benchmark::kMicrosecond);

void ReplaceOneOf2048(benchmark::State& state) {
  const std::vector<NodeView> nodes = Shuffled();
  std::vector<NodeId> gang;
  for (size_t i = 0; i < 2'000; ++i) gang.push_back(nodes[i].name);
  for (auto _ : state) benchmark::DoNotOptimize(ReplaceNode(nodes, gang, gang[7], 8));
}
BENCHMARK(ReplaceOneOf2048)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace longhaul::scheduler

BENCHMARK_MAIN();
