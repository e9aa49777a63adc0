// The jobs of a trace as requests to the scheduler, with the queues that they belong to.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "scheduler/job.h"
#include "scheduler/traces/trace.h"
#include "spec/cluster/topology.h"
#include "spec/queue/queue.h"

namespace longhaul::scheduler::workload {

// What the scheduler knows of durations.
enum class Foresight : uint8_t {
  kTrue,     // the user's limit is the true duration
  kDouble,   // twice it
  kHalf,     // half of it: jobs overrun
  kHistory,  // no limits: quantiles of like jobs
  kLimit,    // the limits of the trace's users, and quantiles where there is none
};

// The jobs that arrived in a month of UTC, written "2017-10". Refuses another form.
Result<std::vector<TraceJob>> OfMonth(const std::vector<TraceJob>& jobs, std::string_view month);

// Guarantees: each tenant's share of the trace's GPU-hours, rounded down to whole GPUs.
std::vector<spec::QueueSpec> QueuesOf(const std::vector<TraceJob>& jobs, int64_t cluster_gpus);

// When the job arrives, and how long it runs: for a year, the most of any job, if the trace has no
// end of it.
Instant ArrivalOf(const TraceJob& job);
Duration LengthOf(const TraceJob& job);

// The request that a trace's job becomes on this cluster; `restart` is what a restart costs.
// Refuses what it cannot mean there.
Result<JobRequest> RequestOf(const TraceJob& job, size_t number, const spec::Topology& topology,
                             bool queues, Foresight foresight, Duration restart);

}  // namespace longhaul::scheduler::workload
