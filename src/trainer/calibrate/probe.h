// Times one operator of the built-in trainer at one size on the device of this process.
//
// The interface is the one that a device for the built-in trainer must provide; the trainer runs on
// CPUs alone. cuda/cuda_probe.h measures NVIDIA GPUs for `plan`, without libtorch and with separate
// figures (planner/local/gpu/gpu_file.h): matmuls, memory, collectives.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "planner/local/device_file.h"

namespace longhaul::trainer {

class Probe {
 public:
  virtual ~Probe() = default;
  virtual std::string Machine() const = 0;  // "AMD EPYC 9B45"
  // Repeats for about `budget`, at least three times, and sets all but kind and sizes. Requires a
  // kind that one process can measure: not kAllReduce.
  virtual Result<planner::Figure> Measure(const planner::Figure& what, Duration budget) = 0;
};

// Measures by this thread's CPU time, so that other processes on the core count only by their
// effect on the caches. kStorage writes to `directory`. Requires PrepareTorch.
std::unique_ptr<Probe> MakeCpuProbe(std::string directory);

// Sets forward_s, backward_s, spread and repeats to the medians of the repeats. Requires at least
// one, and as many of both or no backward.
void Summarise(std::vector<double> forward, std::vector<double> backward, planner::Figure& figure);

}  // namespace longhaul::trainer
