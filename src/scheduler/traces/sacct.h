// Slurm's accounting as a workload trace: what `sacct --parsable2` prints.
//
//   sacct --allusers --allocations --parsable2 --starttime 2026-01-01 --endtime 2026-02-01
//     --format JobIDRaw,User,Account,State,Submit,ElapsedRaw,TimelimitRaw,NNodes,ReqTRES
//
// Columns are found by their names in the first line:
//   JobIDRaw or JobID    steps ("123.0", "123.batch") are skipped
//   Submit               2026-01-03T10:00:00, read as UTC
//   ElapsedRaw           seconds, or Elapsed: [DAYS-]HOURS:MINUTES:SECONDS
//   ReqTRES or AllocTRES "cpu=32,gres/gpu=16,gres/gpu:h100=16,mem=512G,node=2"; the request, unless
//                        it is empty
//   Account, User        optional: the tenant, and the user
//   State                optional: jobs that have not started are skipped, running ones have no end
//   TimelimitRaw         optional: minutes, or Timelimit: [DAYS-]HOURS:MINUTES:SECONDS
//   NNodes               optional: nodes, where the request does not state them
//
// A job becomes as many tasks as it has nodes, each with an equal part of its GPUs, cores and
// memory; where its GPUs cannot be divided so, as many tasks as it has GPUs. A type of GPU
// ("gres/gpu:h100") is the device model that the job requires.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduler/traces/trace.h"

namespace longhaul::scheduler {

struct SacctJobs {
  std::vector<TraceJob> jobs;  // sorted by arrival
  size_t steps = 0;            // rows that were skipped: steps of jobs,
  size_t never_started = 0;    // and jobs that have not run
};

Result<SacctJobs> ReadSacct(std::string_view text, std::string_view source);

}  // namespace longhaul::scheduler
