// Reclaim at scale (500 nodes of 8 gpus: 4,000 one-GPU jobs of a queue that borrows everything,
// then 4,000 of one that is entitled to all) and a cold start (5,000 nodes, 150,000 running tasks).
// No engine and no API in the loop: what is measured is deciding alone.
#include <benchmark/benchmark.h>

#include "base/check.h"
#include "scheduler/scheduler.h"

namespace longhaul::scheduler {
namespace {

Scheduler Make(uint32_t blocks, uint32_t leaves, uint32_t hosts, int64_t guarantee) {
  std::vector<spec::QueueSpec> queues(2);
  queues[0].name = "borrower";
  queues[1].name = "entitled";
  queues[1].guarantee[0] = guarantee * 1000;
  auto topology = spec::Topology::Create(spec::ClosCluster(blocks, leaves, hosts));
  CHECK(topology.ok()) << topology.status().message();
  auto made = Scheduler::Create(*topology, queues, {});
  CHECK(made.ok()) << made.status().message();
  return std::move(made).value();
}

JobRequest Job(const std::string& name, const std::string& queue, int32_t tasks, int32_t gpus) {
  JobRequest job;
  job.id = JobId(name);
  job.queue = queue;
  job.limit = std::chrono::hours(1);
  job.groups.emplace_back();
  job.groups[0].shape.gpus = static_cast<uint8_t>(gpus);
  job.groups[0].shape.cpu_milli = 1'000;
  job.groups[0].minimum = job.groups[0].desired = tasks;
  return job;
}

size_t Starts(Scheduler& scheduler, Instant now) {
  size_t starts = 0;
  for (const Decision& decision : scheduler.Decide(now)) {
    if (decision.kind != DecisionKind::kStart) continue;
    ++starts;
    scheduler.Apply(TasksRunning{decision.job, decision.transaction, {}}, now);
  }
  return starts;
}

void BM_Reclaim(benchmark::State& state) {
  const auto jobs = static_cast<int>(state.range(0));
  const Instant begin = InstantFromNanoseconds(1'000'000'000);
  for (auto _ : state) {
    state.PauseTiming();
    Scheduler scheduler = Make(1, 25, static_cast<uint32_t>(jobs / 200), jobs);
    for (int i = 0; i < jobs; ++i) {
      scheduler.Apply(JobSubmitted{Job("b" + std::to_string(i), "borrower", 1, 1)}, begin);
    }
    CHECK(Starts(scheduler, begin) == static_cast<size_t>(jobs));
    const Instant then = begin + std::chrono::minutes(10);
    for (int i = 0; i < jobs; ++i) {
      scheduler.Apply(JobSubmitted{Job("e" + std::to_string(i), "entitled", 1, 1)}, then);
    }
    state.ResumeTiming();
    CHECK(Starts(scheduler, then) == static_cast<size_t>(jobs));
  }
}
BENCHMARK(BM_Reclaim)->Arg(400)->Arg(4'000)->Unit(benchmark::kMillisecond)->Iterations(5);

// Everything that runs is submitted and placed once more, then one new job is decided.
void BM_ColdStart(benchmark::State& state) {
  const auto nodes = static_cast<uint32_t>(state.range(0));
  const Instant now = InstantFromNanoseconds(1'000'000'000);
  for (auto _ : state) {
    Scheduler scheduler = Make(10, 10, nodes / 100, 0);
    // Six single GPUs and two half gangs a node: 8 GPUs, beside tasks without any.
    uint32_t name = 0;
    for (uint32_t node = 0; node < nodes; ++node) {
      for (int i = 0; i < 6; ++i) {
        scheduler.Apply(JobSubmitted{Job(std::to_string(name++), "borrower", 1, 1)}, now);
      }
      scheduler.Apply(JobSubmitted{Job(std::to_string(name++), "borrower", 2, 1)}, now);
      scheduler.Apply(JobSubmitted{Job(std::to_string(name++), "borrower", 22, 0)}, now);
    }
    Starts(scheduler, now);
    scheduler.Apply(JobSubmitted{Job("new", "entitled", 1, 0)}, now);
    CHECK(Starts(scheduler, now) == 1);
    state.counters["tasks"] = scheduler.state().task_count();
  }
}
BENCHMARK(BM_ColdStart)->Arg(500)->Arg(5'000)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace longhaul::scheduler

BENCHMARK_MAIN();
