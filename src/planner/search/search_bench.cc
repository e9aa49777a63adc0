// How long the search, its proof and a what-if take. Llama 3.1 405B is the largest public dense
// model.
#include <benchmark/benchmark.h>

#include <atomic>
#include <thread>

#include "planner/search/plan.h"
#include "spec/cluster/device_cluster.h"
#include "spec/model/model_reader.h"

namespace longhaul::planner::search {
namespace {

PlanRequest Llama405B() {
  PlanRequest job;
  job.model = *spec::FindModel("llama-3.1-405b");
  job.cluster = *spec::ParseClusterName("h100-sxm:16384");
  job.base.batch.global = 2048;
  job.base.software.framework = "megatron-core";
  job.reach = Reach::kEverything;
  return job;
}

void RunOnTwo(size_t count, const Options::Task& task) {
  std::atomic<size_t> next = 0;
  const auto work = [&](size_t worker) {
    for (size_t i = next++; i < count; i = next++) task(worker, i);
  };
  const std::jthread other(work, size_t{1});
  work(0);
}

void SearchAndProve(benchmark::State& state) {
  const PlanRequest job = Llama405B();
  Options options;
  options.execute = RunOnTwo;
  options.workers = 2;
  options.keep_regions = true;
  for (auto _ : state) {
    const Outcome outcome = Search(job, EvaluatorOracle(job), options);
    const Proof proof = Prove(job, EvaluatorOracle(job), outcome, options);
    if (!proof.holds()) state.SkipWithError("not proved");
    state.counters["points"] = static_cast<double>(outcome.total_points());
    state.counters["computed"] = static_cast<double>(outcome.points[0]);
    state.counters["regions"] = static_cast<double>(proof.regions);
  }
}
BENCHMARK(SearchAndProve)->Unit(benchmark::kSecond)->Iterations(1)->UseRealTime();

void ChangeOneThing(benchmark::State& state) {
  PlanRequest job = Llama405B();
  job.fixed.tensor = 8;
  job.fixed.pipeline = 16;
  job.fixed.context = 1;
  const PlanOptions options;
  const Outcome outcome = Search(job, EvaluatorOracle(job));
  const Proposal best = Propose(job, job.cluster, outcome.best.front().training, options);
  constexpr const char* kChanges[] = {"network.gb_per_s=100", "micro=2", "recompute=full",
                                      "sequence=4096", "island=72"};
  size_t next = 0;
  for (auto _ : state) {
    const auto changed = WhatIf(job, best, kChanges[next++ % std::size(kChanges)], options);
    if (!changed.ok()) state.SkipWithError(changed.status().message().c_str());
    benchmark::DoNotOptimize(changed);
  }
}
BENCHMARK(ChangeOneThing)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace longhaul::planner::search

BENCHMARK_MAIN();
