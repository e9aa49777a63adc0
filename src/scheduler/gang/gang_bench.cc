// Gangs on 5,000 hosts of 8 GPUs in 50 racks (leaves of 100) and 7 blocks, every domain scored;
// the bars are 20,000 pods/s for gangs of 4 and a 99th percentile of 5 ms for a gang of 1,000.
// Without state, quota or engine: the choice alone, and the table's update where slots are taken.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>

#include "base/random.h"
#include "scheduler/gang/equal_tasks.h"

namespace longhaul::scheduler {
namespace {

constexpr int32_t kHosts = 5'000;

DomainTree Racks(int32_t hosts_a_leaf, int32_t leaves_a_block) {
  std::vector<int32_t> leaves = {0};
  while (leaves.back() < kHosts) {
    leaves.push_back(std::min(kHosts, leaves.back() + hosts_a_leaf));
  }
  std::vector<int32_t> blocks = {0};
  const auto count = static_cast<int32_t>(leaves.size()) - 1;
  while (blocks.back() < count) blocks.push_back(std::min(count, blocks.back() + leaves_a_block));
  return *DomainTree::Create({leaves, blocks});
}

// About `percent` of the slots are taken, unevenly.
void FillTo(SlotTable& slots, int percent, Random& random) {
  for (int32_t host = 0; host < kHosts; ++host) {
    const bool taken = random.Below(100) < static_cast<uint64_t>(percent);
    const auto most = static_cast<uint64_t>(slots.max_slots());
    slots.Set(host, taken ? static_cast<int32_t>(random.Below(most / 2 + 1))
                          : static_cast<int32_t>(most - random.Below(most / 4 + 1)));
  }
}

// Gangs of 4 come and go; items are pods.
void GangsOfFour(benchmark::State& state) {
  const DomainTree tree = Racks(100, 8);
  SlotTable slots(tree, 8);
  Random random(1);
  FillTo(slots, static_cast<int>(state.range(0)), random);
  EqualTasksSolver solver;
  EqualTasksAnswer answer;
  EqualTasksRequest request;
  request.tasks = 4;
  request.required_tier = kLeafTier;
  for (auto _ : state) {
    solver.Solve(slots, request, answer);
    if (!answer.placed) {
      state.SkipWithError("a gang of 4 doesn't fit");
      return;
    }
    for (const HostTasks& entry : answer.tasks) {
      slots.Set(entry.host, slots.OnHost(entry.host) - entry.tasks);
    }
    const auto host = static_cast<int32_t>(random.Below(kHosts));  // somebody else ends
    slots.Set(host, std::min(8, slots.OnHost(host) + 4));
  }
  state.SetItemsProcessed(state.iterations() * request.tasks);
}
BENCHMARK(GangsOfFour)->Arg(50)->Arg(80)->Arg(95);

// Of this thread, so that a busy machine doesn't count.
double CpuMilliseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

// Arguments: tasks, slots a host, percent taken, hosts a leaf. Counters: percentiles over fillings.
void LargeGang(benchmark::State& state) {
  const DomainTree tree = Racks(static_cast<int32_t>(state.range(3)), 8);
  SlotTable slots(tree, static_cast<int32_t>(state.range(1)));
  Random random(2);
  EqualTasksSolver solver;
  EqualTasksAnswer answer;
  EqualTasksRequest request;
  request.tasks = static_cast<int32_t>(state.range(0));
  std::vector<double> times;
  double unproven = 0;
  for (auto _ : state) {
    state.PauseTiming();
    FillTo(slots, static_cast<int>(state.range(2)), random);
    state.ResumeTiming();
    const double start = CpuMilliseconds();
    solver.Solve(slots, request, answer);
    times.push_back(CpuMilliseconds() - start);
    state.PauseTiming();
    unproven += answer.hosts_proven && answer.leftover_proven ? 0 : 1;
    state.ResumeTiming();
  }
  std::sort(times.begin(), times.end());
  state.counters["cpu_p50_ms"] = times[times.size() / 2];
  state.counters["cpu_p99_ms"] = times[times.size() * 99 / 100];
  state.counters["unproven"] = unproven / static_cast<double>(times.size());
  state.counters["leaves"] = answer.domains[kLeafTier];
}
BENCHMARK(LargeGang)
    ->ArgNames({"tasks", "slots", "taken", "leaf"})
    ->Args({1'000, 1, 50, 100})
    ->Args({1'000, 1, 75, 100})
    ->Args({1'000, 2, 75, 100})
    ->Args({1'000, 8, 50, 100})
    ->Args({1'000, 8, 90, 100})
    ->Args({1'000, 1, 50, 16})
    ->Args({1'000, 8, 90, 16})
    ->Args({4'000, 1, 15, 100})
    ->Args({4'000, 8, 50, 16})
    ->Iterations(300)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace longhaul::scheduler

BENCHMARK_MAIN();
