// Workload traces, read into one form: jobs with a time of arrival, a duration and what a task
// needs.
//
// Readers for three published ones, by their column names; where they come from and how their
// replays are run is in README.md. `sacct.h` reads Slurm's accounting. Every mistake is reported
// with file, line and column.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduler/state/shape.h"
#include "spec/cluster/topology.h"

namespace longhaul::scheduler {

struct TraceJob {
  std::string name;
  std::string tenant;                  // empty: the trace has none
  std::string user;                    // empty: the trace has none
  int64_t arrival_ms = 0;              // since the trace's first arrival; 0: not known
  int64_t clock_ms = 0;                // of the arrival, since 1970 in UTC; 0: not known
  std::optional<int64_t> duration_ms;  // absent: runs beyond the trace
  std::optional<int64_t> limit_ms;     // the time limit that its user asked for
  uint32_t tasks = 1;
  TaskRequest task;  // of each
  // At most so many tasks of its tenant's kind on one node; 0: no limit.
  uint32_t most_per_node = 0;
};

// Sorts by arrival, keeps the order of equal ones, and lets the first job arrive at 0.
void SortByArrival(std::vector<TraceJob>& jobs);

// Alibaba's "openb" cluster with GPU sharing (2023). Nodes: sn, cpu_milli, memory_mib, gpu, model;
// they lie in one leaf. Tasks: name, cpu_milli, memory_mib, num_gpu, gpu_milli and, in some lists,
// gpu_spec ("V100M16|V100M32"), creation_time and deletion_time in seconds.
Result<spec::ClusterDeclaration> ReadOpenbNodes(std::string_view text, std::string_view source);
Result<std::vector<TraceJob>> ReadOpenbTasks(std::string_view text, std::string_view source);

// Microsoft's Philly cluster (2017): timestamp ("2017-10-09 07:01:55"), duration (s), num_gpus,
// cluster (the tenant). Sorted by time, then row. Up to 8 GPUs are one task; more are tasks of 8
// and must be a multiple of 4 (tasks of 4 then), as all of the trace's are.
Result<std::vector<TraceJob>> ReadPhilly(std::string_view text, std::string_view source);

// Alibaba's disaggregated recommendation inference (2025): role (CN has no GPU), app_name (the
// tenant), cpu_request, gpu_request, rdma_request (% of one NIC, counted as "rdma"), memory_request
// and disk_request (GiB; disk counted as "disk_gib"), max_instance_per_node (-1: none),
// creation_time, deletion_time. Sorted by time, then row.
Result<std::vector<TraceJob>> ReadDlrm(std::string_view text, std::string_view source);

}  // namespace longhaul::scheduler
