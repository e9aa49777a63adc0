// A trace in virtual time: the same scheduler as the controller's, on a declared cluster.
//
// Jobs arrive as the trace says and run as long as it says once they have their GPUs; the
// scheduler sees only what its predictor lets it see. What it decides happens at once (no engine,
// no API). An evicted job loses what it did since its last snapshot. Everything here is simulated,
// and says so.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"
#include "scheduler/traces/trace.h"
#include "scheduler/workload/contenders.h"
#include "scheduler/workload/trace_requests.h"
#include "spec/cluster/topology.h"

namespace longhaul::scheduler::workload {

struct SimulationOptions {
  Foresight foresight = Foresight::kTrue;
  Duration snapshot_period = std::chrono::hours(1);
  Duration restart = std::chrono::minutes(2);
  bool check = false;  // invariants after every round (slow)
  // Called now and then with the virtual time.
  std::function<void(Instant)> on_progress;
  // Called after every decision and every round, for tests.
  std::function<void(const Decision&, Instant)> on_decision;
  std::function<void(const Scheduler&, Instant)> on_round;
};

struct SizeClass {
  int32_t gpus_from = 1;
  int32_t gpus_to = 1;
};
// 1, 2-4, 5-8, 9-32, 33 and more.
std::vector<SizeClass> StandardSizes();

struct WaitFigures {
  uint64_t jobs = 0;
  double mean_s = 0;
  double p50_s = 0;
  double p95_s = 0;
  double p99_s = 0;
};

struct SimulationResult {
  std::string contender;
  uint64_t jobs = 0;
  uint64_t rejected = 0;
  std::string first_rejection;  // which job, and why
  double use = 0;               // of capacity, from the first arrival to the last
  double use_to_end = 0;        // until the last job has ended
  double demand = 0;            // GPU-time asked for over capacity, arrivals' span
  Duration makespan{};
  WaitFigures wait;
  std::vector<WaitFigures> wait_by_size;  // as StandardSizes
  double largest_wait_s = 0;
  double slowdown_mean = 0;  // bounded: (wait + run) / max(run, 10 s)
  double slowdown_p95 = 0;
  double fragmentation = 0;  // free GPUs on hosts that are partly used, of all free; time average
  uint64_t gangs = 0;        // starts on more than one host
  // Over gangs: leaves used / fewest possible at that moment, and the same of blocks. Fewest blocks
  // may ask for more leaves, so both are 1 only where the two never differ.
  double leaves_ratio = 0;
  double blocks_ratio = 0;
  double spread_share = 0;  // gangs on more blocks, or in so few on more leaves, than need be
  uint64_t evictions = 0;
  uint64_t moves = 0;  // running jobs that continued elsewhere, to make room
  double lost_gpu_hours = 0;
  double unfairness = 0;  // GPU-time that tenants waited for within their guarantee, of capacity
  uint64_t rounds = 0;
  uint64_t decisions = 0;
  double cpu_s = 0;  // filled by the caller, who may read clocks
  uint64_t log_hash = 0;
  std::vector<std::pair<double, double>> use_over_time;      // hours since the start, share in use
  std::vector<std::pair<double, double>> waiting_over_time;  // hours, jobs that wait
};

// Requires jobs sorted by arrival. A job without a duration runs for a year.
Result<SimulationResult> Simulate(const spec::ClusterDeclaration& cluster,
                                  const std::vector<TraceJob>& jobs, const Contender& contender,
                                  const SimulationOptions& options);

}  // namespace longhaul::scheduler::workload
