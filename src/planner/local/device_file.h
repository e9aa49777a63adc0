// The device file: the measurements of `longhaul calibrate` on a machine (docs/calibrate.md).
//
// A figure is the time of one operator at one size on one core while every other core does the
// same, because cores share caches, memory and often their arithmetic units. Seconds are medians of
// repeats by CPU time, but all-reduce and storage, which wait, are by the clock. Reading checks
// everything: keys, types, ranges, sizes that belong to the operator. Leaves out the values
// computed from the figures (local/operator_times.h).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/units.h"

namespace longhaul::planner {

enum class FigureKind : uint8_t {
  kMatmul,      // y[m x n] = x[m x k] W + bias; backward gives both gradients
  kAttention,   // scores, softmax and values of `batch_heads` heads, causal, of one sequence each
  kNorm,        // layer norm of rows x width; the next three have the same sizes
  kActivation,  // tanh-approximated GELU
  kResidual,    // addition to the residual stream; backward adds two gradients
  kLoss,        // cross entropy over `width` words
  kEmbedding,   // the built-in model's input: token, earlier tokens, position
  kOptimizer,   // clearing gradients, their norm, AdamW, over `floats` parameters
  kAllReduce,   // sum of `bytes` over `ranks` processes on this machine
  kCopy,        // of `bytes` in memory
  kStorage,     // `bytes` written and synced
  kLaunch,      // an addition of one element through autograd
  kRuntime,     // the time that agents and controller add to a step of `ranks` workers
};
constexpr size_t kFigureKinds = 13;

struct Figure {
  FigureKind kind = FigureKind::kMatmul;
  std::array<double, 3> sizes{};  // in the order of SizeNames(kind), the rest zero
  double forward_s = 0;           // the whole time where there is no backward
  double backward_s = 0;
  double spread = 0;  // between the quartiles of the repeats, as a share of the median
  uint32_t repeats = 0;

  friend bool operator==(const Figure&, const Figure&) = default;
};

std::string_view FigureName(FigureKind kind);                  // "matmul"
std::span<const std::string_view> SizeNames(FigureKind kind);  // {"m", "n", "k"}
bool HasBackward(FigureKind kind);

struct DeviceFile {
  std::string kind = "cpu";
  std::string machine;      // the processor's name
  std::string measured_at;  // "2026-05-01T12:00:00Z"
  std::map<std::string, std::string> versions;
  uint32_t cores = 0;
  Bytes memory;
  bool quick = false;        // fewer sizes
  double calibration_s = 0;  // the duration of the calibration
  Bytes process_memory;      // resident in a worker before its model and data
  std::vector<Figure> figures;

  friend bool operator==(const DeviceFile&, const DeviceFile&) = default;
};

constexpr size_t kLargestDeviceFile = 4 << 20;

// Requires all figures that a cost model needs. kInvalidArgument names the mistake and its place.
Result<DeviceFile> ParseDeviceFile(std::string_view json);
// The text that ParseDeviceFile reads back; byte for byte the same for equal contents.
std::string ToJson(const DeviceFile& file);

}  // namespace longhaul::planner
