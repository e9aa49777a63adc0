// Measures one machine's NVIDIA GPUs for the planner: fills planner/local/gpu/gpu_file.h.
//
// Run on one H100 (docs/hardware); the collectives are untested on hardware. Tests run it against a
// driver with scripted times (fake_cuda.cc). Sizes are measured in a fixed order. Each is run a few
// times to warm up, then repeatedly, every run between two events on one stream, until its budget
// of device time is used or enough runs are done; the median counts. Operands are bf16 normals of a
// fixed sequence (a GPU's power depends on the data). Attention is two batched matmuls of cuBLAS
// and, by the streams' measured rate, the bytes of the softmax between them: an unfused kernel,
// slower than flash attention. Collectives run on all GPUs of the machine from one process; the
// slowest GPU's time counts. Leaves out clocks and power, other processes on the GPUs, and links
// beyond the machine.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "planner/local/gpu/gpu_file.h"
#include "trainer/calibrate/cuda/cuda_api.h"

namespace longhaul::trainer {

struct CudaOptions {
  CudaPaths paths{};
  bool quick = false;
};

using CudaProgress = std::function<void(size_t done, size_t total, const std::string& what)>;

struct CudaResult {
  planner::GpuFile file;           // without measured_at
  std::vector<std::string> notes;  // omitted measurements, with the reasons
};

// kUnavailable where there is no driver, library or GPU; kInternal naming the call that failed.
Result<CudaResult> MeasureGpus(const CudaOptions& options, const CudaProgress& progress);

}  // namespace longhaul::trainer
