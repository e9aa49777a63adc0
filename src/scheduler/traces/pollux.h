// The workloads of Pollux (OSDI 2021), and the times from which their jobs' durations follow.
//
// A workload lists jobs: name, time (s), application, num_replicas (GPUs) and batch_size. It has no
// durations. They are computed from the tables that were published beside it, for each application:
//   validation-BATCH.csv  a row for each epoch of a training with this batch; the column
//                         "iteration" counts its iterations from the start
//   placements.csv        step_time and sync_time (s) by placement ("14": one GPU of a host and
//                         four of another) and local_bsz, the batch of one GPU
//   scalability.csv       the same by num_nodes and num_replicas
// What is assumed: A job trains as many iterations as the last row of its batch's table. Its GPUs
// lie on as few hosts as any measured placement has, of several the one that fills its hosts most.
// Between two measured batches of a GPU the times are interpolated; below the smallest they are
// those of the smallest. A batch above the largest is computed in equal passes, of which the last
// one alone synchronises: each pass but the last takes step_time - sync_time.
//
// Leaves out that the jobs' batch and GPUs may change as they run, which is what Pollux does.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "scheduler/traces/trace.h"

namespace longhaul::scheduler {

struct PolluxJob {
  std::string name;
  int64_t arrival_ms = 0;
  std::string application;  // letters, digits, '-' and '_': the name of a folder
  int64_t gpus = 1;
  int64_t batch = 1;  // at least one for each GPU
};

Result<std::vector<PolluxJob>> ReadPolluxWorkload(std::string_view text, std::string_view source);

// The measured times of any number of applications.
class PolluxTimes {
 public:
  // Each adds one table. A later table of the same name joins or replaces the earlier one's rows.
  Status AddPlacements(const std::string& application, std::string_view text,
                       std::string_view source);
  Status AddScalability(const std::string& application, std::string_view text,
                        std::string_view source);
  Status AddTraining(const std::string& application, int64_t batch, std::string_view text,
                     std::string_view source);

  // Returns kNotFound when no time was measured for the application, the batch or the number of
  // GPUs, and kInvalidArgument for a duration of more than 272 years.
  Result<int64_t> DurationMs(const PolluxJob& job) const;

 private:
  // One step with this batch of a GPU.
  struct Step {
    int64_t step_us = 0;
    int64_t sync_us = 0;
  };
  // A placement, the densest first: the number of hosts, then the GPUs of each, ascending.
  using Placement = std::pair<size_t, std::string>;
  struct Application {
    std::map<int64_t, std::map<Placement, std::map<int64_t, Step>>> steps;  // by GPUs, by batch
    std::map<int64_t, int64_t> iterations;                                  // by batch
  };

  std::map<std::string, Application> applications_;
};

// The jobs with their durations, sorted by arrival. Up to 4 GPUs, those of a host in the measured
// cluster, are one task; more are equal tasks of as many as divide them. The application is the
// user, whose jobs take alike.
Result<std::vector<TraceJob>> WithDurations(const std::vector<PolluxJob>& jobs,
                                            const PolluxTimes& times);

}  // namespace longhaul::scheduler
