// The GPU file: the measurements of `longhaul calibrate --device cuda` on a machine's accelerators.
//
// Run on one H100 (docs/hardware), and by a simulated driver in tests; the collectives are untested
// on hardware. One JSON object of at most 4 MiB, "format":
// "longhaul-gpu", version 1 (docs/calibrate.md): the machine, and a figure for each operator,
// precision and size with its median seconds. `plan` accepts it instead of a cluster. Its figures
// replace levels, not shapes: one factor on the rate of all matmuls of a precision (the median over
// shapes), one on attention with it, the streams' bandwidth, the links' bandwidth and latency (each
// collective at its largest and smallest size). Shapes, and values that were not measured, stay
// those of the nearest shipped GPU. Leaves out attention's own rate: matmuls and softmax are
// measured separately, not a fused kernel.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "planner/time/collective_cost.h"
#include "planner/time/device_matrix.h"
#include "spec/cluster/device.h"

namespace longhaul::planner {

enum class GpuOperator : uint8_t {
  kMatmul,         // y[m x n] = x[m x k] W, in the figure's precision with fp32 sums
  kAttention,      // scores and values of `batch_heads` as two batched matmuls, softmax as streams
  kStream,         // `bytes` read and as many written in the GPU's memory
  kToDevice,       // `bytes` from pinned host memory
  kToHost,         // `bytes` to pinned host memory
  kLaunch,         // one of many short operations in a row
  kAllReduce,      // over `ranks` GPUs of this machine; `bytes` is the whole buffer
  kAllGather,      // `bytes` is the size of the result
  kReduceScatter,  // `bytes` is the size of the input
  kAllToAll,       // `bytes` is the size of the input
};
constexpr size_t kGpuOperators = 10;

std::string_view GpuOperatorName(GpuOperator op);                // "matmul"
std::span<const std::string_view> GpuSizeNames(GpuOperator op);  // {"m", "n", "k"}

struct GpuFigure {
  GpuOperator op = GpuOperator::kMatmul;
  spec::Precision precision = spec::Precision::kBf16;  // of matmuls and attention
  std::array<double, 3> sizes{};
  double seconds = 0;
  double spread = 0;  // between the quartiles of the repeats, as a share of the median
  uint32_t repeats = 0;

  friend bool operator==(const GpuFigure&, const GpuFigure&) = default;
};

struct GpuFile {
  std::string machine;      // "NVIDIA H100 80GB HBM3", as the driver names the GPU
  std::string measured_at;  // "2026-05-01T12:00:00Z"
  std::string driver;       // versions, as one text
  uint32_t gpus = 0;
  Bytes memory;  // of a GPU
  uint32_t compute_units = 0;
  bool quick = false;
  std::vector<GpuFigure> figures;

  friend bool operator==(const GpuFile&, const GpuFile&) = default;
};

// kInvalidArgument names the mistake and its place. Requires at least three matmuls and one stream.
Result<GpuFile> ParseGpuFile(std::string_view json);
std::string ToJson(const GpuFile& file);

struct GpuConstants {
  spec::DeviceCluster cluster;  // the machine; more devices are more machines of this kind
  DeviceMatrix matrix;
  Links links;
  std::string like;  // the shipped GPU whose shapes are used
};

// For `devices` GPUs; 0: those of the machine. Rejects a count that does not fill machines.
Result<GpuConstants> ConstantsOf(const GpuFile& file, uint32_t devices = 0);

}  // namespace longhaul::planner
