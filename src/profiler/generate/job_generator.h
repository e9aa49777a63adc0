// Generates traces of a job with known results: for tests, benchmarks and trials of the profiler.
//
// A transformer on tensor x data x pipeline ranks runs in virtual time: a schedule of
// across/schedule.h, an all-reduce of the tensor ranks per layer, matching sends and receives, the
// gradients' all-reduces hidden under the last backward, kernels launched ahead by a host that can
// be late. Faults and skewed clocks are injected; a run of the same job without a fault gives the
// fault's cost. Leaves out noise beyond a fixed jitter and congestion between collectives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/across/schedule.h"
#include "profiler/rank/kernel_classes.h"
#include "profiler/rank/summary.h"

namespace longhaul::profiler {

struct GeneratorOptions {
  int tensor = 2;
  int data = 2;
  int pipeline = 2;
  int layers = 4;  // per stage; for DualPipe in each direction
  Schedule schedule = Schedule::kOneForwardOneBackward;
  int chunks = 1;  // of a stage's layers, as the schedule requires
  int micro_batches = 4;
  int steps = 3;
  int warm_up = 0;  // untraced steps before those
  int ranks_per_host = 4;
  double layer_us = 600;  // forward of one layer
  // Its backward, of layer_us: the gradients of its inputs and of its weights.
  double inputs_share = 1.4;
  double weights_share = 0.6;
  double tensor_wire_us = 40;
  double pipeline_wire_us = 30;
  double data_wire_us = 400;  // per layer's bucket
  double launch_us = 4;
  bool sequence_numbers = true;
  bool group_descriptions = true;
  bool flows = true;

  // Faults.
  int slow_rank = -1;
  int slow_host = -1;
  double slow_factor = 1.2;
  int late_rank = -1;  // its host takes late_us per launch
  double late_us = 300;
  int slow_link_rank = -1;  // its sends to the next stage take link_factor times as long
  double link_factor = 20;
  int heavy_stage = -1;  // has heavy_factor times the work
  double heavy_factor = 1.5;
  double input_us = 0;  // a data loader's wait before each step, on rank 0
  int stall_rank = -1;  // stalls once, in this step
  int stall_step = 0;
  double stall_us = 0;
  double stall_at = 0.5;  // of the step's operations
  enum class Stall { kKernel, kHost, kCall } stall = Stall::kKernel;

  // Host h's clock is off by h * skew_us and runs fast by h * drift_ppm.
  double skew_us = 0;
  double drift_ppm = 0;
};

struct GeneratedKernel {
  std::string name;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t launch_ns = 0;
  int64_t launch_end_ns = 0;
  int stream = 7;
  Phase phase = Phase::kForward;
  // Of a collective.
  int group = -1;  // in GeneratedJob::groups
  const char* collective = nullptr;
  int64_t elements = 0;
  int64_t sequence = -1;
  int source = -1;
  int destination = -1;
};

struct GeneratedSpan {
  std::string name;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

struct GeneratedJob {
  struct Group {
    std::string name;
    std::string description;
    std::vector<int> ranks;
  };
  std::vector<std::vector<GeneratedKernel>> kernels;  // [rank]
  std::vector<std::vector<GeneratedSpan>> steps;      // [rank], of the host
  std::vector<std::vector<GeneratedSpan>> input;      // [rank]
  std::vector<std::vector<GeneratedSpan>> waits;      // [rank], of the host for the device
  std::vector<Group> groups;
  double seconds = 0;  // from the first step's begin on its host to the last end, by the true clock
};

GeneratedJob Generate(const GeneratorOptions& options);

// The Kineto file of one rank, by its own clock.
std::string KinetoJson(const GeneratedJob& job, const GeneratorOptions& options, int rank);

}  // namespace longhaul::profiler
