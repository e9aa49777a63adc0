// Victims on 500 hosts of 8 GPUs: one-GPU jobs over their guarantee, whole hosts or a rack
// wanted. The search alone, with a proof that always agrees.
#include <benchmark/benchmark.h>

#include "base/random.h"
#include "scheduler/victims/victim_search.h"

namespace longhaul::scheduler {
namespace {

constexpr int32_t kHosts = 500;
constexpr int32_t kGpus = 8;

struct Cluster {
  std::vector<VictimJob> jobs;
  std::vector<VictimPiece> pieces;
  std::vector<std::vector<std::vector<int32_t>>> racks;  // [rack][host]: pieces
};

// Jobs of `job_gpus` GPUs each, on random hosts of one rack; all GPUs are held.
Cluster Full(int32_t job_gpus, int32_t rack_hosts) {
  Random random(1);
  Cluster cluster;
  for (int32_t rack = 0; rack * rack_hosts < kHosts; ++rack) {
    auto& hosts = cluster.racks.emplace_back(static_cast<size_t>(rack_hosts));
    std::vector<size_t> gpus;
    for (size_t host = 0; host < hosts.size(); ++host) gpus.insert(gpus.end(), kGpus, host);
    for (size_t i = gpus.size(); i > 1; --i) std::swap(gpus[i - 1], gpus[random.Below(i)]);
    for (size_t c = 0; c < gpus.size(); ++c) {
      if (c % static_cast<size_t>(job_gpus) == 0) {
        cluster.pieces.push_back({static_cast<int32_t>(cluster.jobs.size()), -1});
        cluster.jobs.push_back({static_cast<int64_t>(1'000 + random.Below(1'000'000))});
      }
      auto& held = hosts[gpus[c]];
      const auto piece = static_cast<int32_t>(cluster.pieces.size()) - 1;
      if (held.empty() || held.back() != piece) held.push_back(piece);
    }
  }
  return cluster;
}

// Arguments: GPUs a victim job, hosts a rack, hosts wanted in one rack.
void WholeHosts(benchmark::State& state) {
  const Cluster cluster =
      Full(static_cast<int32_t>(state.range(0)), static_cast<int32_t>(state.range(1)));
  std::vector<VictimDomain> domains;
  for (const auto& hosts : cluster.racks) {
    VictimDomain domain;
    domain.id = static_cast<int32_t>(domains.size());
    domain.need = static_cast<int32_t>(state.range(2));
    domain.first_holder.push_back(0);
    for (const auto& held : hosts) {
      domain.holders.insert(domain.holders.end(), held.begin(), held.end());
      domain.first_holder.push_back(static_cast<int32_t>(domain.holders.size()));
    }
    domains.push_back(domain);
  }
  VictimAnswer answer;
  for (auto _ : state) {
    answer = FindVictims(cluster.jobs, cluster.pieces, domains,
                         [](int32_t, std::span<const Victim>) { return true; });
  }
  state.counters["proven"] = answer.proven ? 1 : 0;
  state.counters["gap"] = static_cast<double>(answer.cost) / static_cast<double>(answer.bound);
  state.counters["victims"] = static_cast<double>(answer.victims.size());
}
BENCHMARK(WholeHosts)
    ->ArgNames({"gpus", "rack", "need"})
    ->Args({1, 500, 64})
    ->Args({1, 20, 8})
    ->Args({2, 20, 8})
    ->Args({4, 20, 8})
    ->Args({8, 20, 8})
    ->Args({16, 20, 8})
    ->Args({16, 20, 2})
    ->Unit(benchmark::kMillisecond);

// One GPU each: 4,000 victims, `need` GPUs wanted anywhere.
void SingleGpus(benchmark::State& state) {
  const Cluster cluster = Full(1, kHosts);
  VictimDomain domain;
  domain.need = static_cast<int32_t>(state.range(0));
  domain.first_holder.push_back(0);
  for (int32_t piece = 0; piece < kHosts * kGpus; ++piece) {
    domain.holders.push_back(piece);
    domain.first_holder.push_back(piece + 1);
  }
  const std::vector<VictimDomain> domains = {domain};
  VictimAnswer answer;
  for (auto _ : state) {
    answer = FindVictims(cluster.jobs, cluster.pieces, domains,
                         [](int32_t, std::span<const Victim>) { return true; });
  }
  state.counters["proven"] = answer.proven ? 1 : 0;
}
BENCHMARK(SingleGpus)->Arg(1)->Arg(64)->Arg(1'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace longhaul::scheduler

BENCHMARK_MAIN();
