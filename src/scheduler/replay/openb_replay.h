// The published replay of the "openb" task lists: tasks arrive one by one, nothing ends, a task
// that fits nowhere is dropped, and what counts is how much of the GPUs is allocated when so much
// has arrived (Weng et al., USENIX ATC 2023; README.md has the protocol as far as it is published).
//
// Pure: texts, seeds and a clock-free core; openb_replay_bench.cc reads the files and prints.
// Leaves out durations: a timed replay is the simulator's.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "scheduler/small_jobs/policy.h"
#include "scheduler/traces/trace.h"

namespace longhaul::scheduler {

inline constexpr int kMaxArrivedPercent = 130;

// Allocated percent of the cluster's GPUs, by arrived percent.
using AllocationCurve = std::array<double, kMaxArrivedPercent + 1>;

enum class ReplayRule {
  kLonghaul,      // SmallPlacer
  kScheduler,     // the class Scheduler, a job a task, with the mix announced
  kBestFit,       // least cpu and GPUs left over
  kPublishedFgd,  // FGD's own score and tie-break
  kRandom,        // any node that fits
};

struct ReplayResult {
  AllocationCurve allocated{};
  uint64_t decisions = 0;
  uint64_t refused = 0;
};

// The order of arrival, as indices of `tasks`: tasks drawn with replacement are added until the
// demand would pass 130 % of the capacity, or removed until it doesn't; then all are shuffled.
// Requires a task that asks for GPUs.
std::vector<uint32_t> InflatedArrivals(std::span<const TraceJob> tasks, int64_t capacity_milli,
                                       Random& random);

// As many tasks, drawn with replacement: another list of the same kind, to test rules on.
std::vector<TraceJob> Resampled(std::span<const TraceJob> tasks, Random& random);

// Replays one order on an empty cluster. The mix is that of `tasks`. Models that the cluster lacks
// are left out of a task's pin; a task that is pinned to such models only is dropped.
Result<ReplayResult> Replay(const spec::Topology& topology, std::span<const TraceJob> tasks,
                            std::span<const uint32_t> arrivals, ReplayRule rule,
                            const SmallJobPolicy& policy = {});

// Of all GPUs, in thousandths.
int64_t CapacityMilli(const spec::Topology& topology);

// Published curves of one list and policy: the mean over the seeds, and how many there are.
struct PublishedCurve {
  AllocationCurve mean{};
  int seeds = 0;
};
// By workload ("openb_pod_list_default") and policy ("06-FGD"). Columns: workload, sc_policy, seed
// and one for each percent.
Result<std::map<std::pair<std::string, std::string>, PublishedCurve>> ReadPublishedCurves(
    std::string_view text, std::string_view source);

}  // namespace longhaul::scheduler
