#include "planner/time/device_matrix.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace longhaul::planner {
namespace {

using spec::Precision;

constexpr double kAccumulateBytes = 4;
constexpr double kSettledTokens = 8'192;

size_t Index(Precision precision) { return static_cast<size_t>(precision); }

// A GPU's constants as fitted. Shares are of the sheet's peak or bandwidth.
struct GpuConstants {
  std::string_view name;
  double half_share = 0;  // of the half-precision peak, sustained in training
  double fp8_share = 0;
  double fp4_share = 0;
  double wave_rounding = 0;
  double inner_overhead = 0;
  double attention_tflops = 0;    // native kernels, forward
  double attention_backward = 0;  // slowdown
  double first_share = 0;
  double second_share = 0;
  double block_queries = 0;
  double start_tokens = 0;
  double head_exponent = 0;
  double bandwidth_share = 0;
  bool measured = false;
};

// Shapes: aiconfigurator's kernel tables (ai-dynamo, Apache-2.0, systems/data at 095f58a51c) and
// SimuMax's training kernels (MooreThreads, Apache-2.0, configs/system); levels: published training
// steps (validation/planner: tuning and fit). MI325X and MI355X: Primus rows; MI300X as MI325X;
// GPUs without a row: their nearest relative. The 96 GB H100 runs under a lower power limit
// (torchtitan's performance page): a tenth less.
constexpr GpuConstants kGpus[] = {
    {"a100-40gb-sxm", 0.738, 0, 0, 0.45, 148, 200, 1.22, 0.571, 1, 128, 250, 0.15, 0.752, true},
    {"a100-80gb-sxm", 0.738, 0, 0, 0.45, 148, 200, 1.22, 0.571, 1, 128, 250, 0.15, 0.752, true},
    {"a100-80gb-pcie", 0.72, 0, 0, 0.45, 148, 195, 1.22, 0.571, 1, 128, 250, 0.15, 0.752, true},
    {"a800-80gb", 0.738, 0, 0, 0.45, 148, 200, 1.22, 0.571, 1, 128, 250, 0.15, 0.752, false},
    {"h100-sxm", 0.62, 0.612, 0, 0.05, 220, 527, 1.24, 0.389, 0.62, 64, 1000, 0.34, 0.695, true},
    {"h100-96gb-sxm", 0.56, 0.55, 0, 0.05, 220, 475, 1.24, 0.389, 0.62, 64, 1000, 0.34, 0.695,
     false},
    {"h100-pcie", 0.488, 0.459, 0, 0.05, 220, 351, 1.24, 0.389, 0.62, 64, 1000, 0.34, 0.695, false},
    {"h800-sxm", 0.62, 0.612, 0, 0.05, 220, 527, 1.24, 0.389, 0.62, 64, 1000, 0.34, 0.695, false},
    {"h200-sxm", 0.62, 0.612, 0, 0.05, 220, 527, 1.24, 0.389, 0.62, 64, 1000, 0.34, 0.62, true},
    {"b200-sxm", 0.473, 0.51, 0.393, 0, 120, 1120, 1.24, 0.2, 0.35, 192, 900, 0.76, 0.657, true},
    {"b300-sxm", 0.521, 0.605, 0.393, 0, 120, 1364, 1.24, 0.2, 0.35, 192, 900, 0.76, 0.657, false},
    {"gb200-nvl72", 0.519, 0.554, 0.386, 0, 120, 1233, 1.24, 0.2, 0.35, 192, 670, 0.6, 0.657, true},
    {"gb300-nvl72", 0.592, 0.729, 0.393, 0, 120, 1566, 1.24, 0.2, 0.35, 192, 670, 0.6, 0.657,
     false},
    {"mi300x", 0.496, 0.607, 0, 0.3, 300, 450, 1.3, 0.5, 0.8, 128, 500, 0.4, 0.657, false},
    {"mi325x", 0.496, 0.607, 0, 0.3, 300, 450, 1.3, 0.5, 0.8, 128, 500, 0.4, 0.657, false},
    {"mi355x", 0.499, 0.45, 0.3, 0.3, 300, 900, 1.3, 0.4, 0.6, 128, 500, 0.4, 0.657, false},
    {"l40s", 0.6, 0.5, 0, 0.3, 150, 180, 1.22, 0.5, 1, 128, 250, 0.15, 0.752, false},
    {"a10", 0.6, 0, 0, 0.45, 148, 65, 1.22, 0.5, 1, 128, 250, 0.15, 0.752, false},
};

const GpuConstants& ConstantsOf(const spec::Device& device) {
  for (const GpuConstants& gpu : kGpus) {
    if (gpu.name == device.name) return gpu;
  }
  // An unknown GPU is treated as the nearest generation by whether it has fp8 and fp4 units.
  const std::string_view like = device.fp4.count() > 0   ? "b300-sxm"
                                : device.fp8.count() > 0 ? "h800-sxm"
                                                         : "a800-80gb";
  for (const GpuConstants& gpu : kGpus) {
    if (gpu.name == like) return gpu;
  }
  return kGpus[0];
}

struct Tile {
  double rows;
  double columns;
  double rate;  // against the largest tile
};
constexpr Tile kTiles[] = {{256, 128, 1.0}, {128, 128, 0.92}, {128, 64, 0.75}};

double AttentionRate(const AttentionConstants& attention, AttentionKernels kernels,
                     double head_dim) {
  const double share = kernels == AttentionKernels::kFirst    ? attention.first_share
                       : kernels == AttentionKernels::kSecond ? attention.second_share
                                                              : 1;
  const double narrow = std::min(head_dim, 128.0) / 128;
  return share * attention.forward_flops_per_s * std::pow(narrow, attention.head_exponent);
}

// Backward counts as 2.5 times the forward. The last blocks of a head run on few units (`tail`);
// the hypotenuse joins work and tail smoothly, as the larger of the two dominates.
OperatorSeconds TimeOfAttention(const DeviceMatrix& matrix, const spec::Operator& op,
                                AttentionKernels kernels) {
  const AttentionConstants& attention = matrix.attention;
  const double rate = AttentionRate(attention, kernels, op.head_dim);
  const double block = 8 * op.head_dim * attention.block_queries * op.keys;  // FLOPs of the last
  const double tail = block / (rate / matrix.compute_units);
  // Short sequences start and end more often; from kSettledTokens on power sets the rate.
  const double start = attention.start_tokens;
  const double length = std::clamp(2 * op.keys, 1.0, kSettledTokens);
  const double slow = (1 + start / length) / (1 + start / kSettledTokens);
  const double work = slow * op.forward_flops / rate;
  const bool uneven = op.uneven_heads;
  const double forward = work / (uneven ? attention.uneven_heads_forward : 1);
  const double backward =
      2.5 * attention.backward_slowdown * work / (uneven ? attention.uneven_heads_backward : 1);
  OperatorSeconds t;
  t.forward = attention.launch_s + std::hypot(forward, tail);
  t.backward = 2 * attention.launch_s + std::hypot(backward, tail);
  return t;
}

// Permutation, look-up and the fused loss reach half of what plain streams do.
double StreamSeconds(const DeviceMatrix& matrix, const spec::Operator& op, double bytes,
                     double kernels) {
  double rate = matrix.bandwidth_bytes_per_s;
  if (op.part == spec::OperatorPart::kExperts) rate = matrix.permute_bytes_per_s;
  if (op.part == spec::OperatorPart::kVocabulary && kernels <= 4) {
    rate = matrix.scattered_bytes_per_s;
  }
  return std::max(bytes / rate, kernels * matrix.kernel_floor_s);
}

// Quantising an operand: read in two bytes, written in rows and, for its transpose, in columns.
double QuantiseSeconds(const DeviceMatrix& matrix, const MatmulConstants& constants,
                       double elements) {
  return elements * (2 + 2 * constants.operand_bytes) / matrix.quantise_bytes_per_s +
         2 * matrix.kernel_floor_s;
}

double WidthSlowdown(const DeviceMatrix& matrix, double n, double k) {
  if (std::fmod(n, 8) != 0 || std::fmod(k, 8) != 0) return matrix.odd_width_slowdown;
  if (std::fmod(n, 64) != 0 || std::fmod(k, 64) != 0) return matrix.ragged_width_slowdown;
  return 1;
}

// A launch for each expert: one that fills the GPU many times over loses little at its end.
double GroupedShare(const DeviceMatrix& matrix, const spec::Operator& op) {
  const double tiles = op.m * op.n / (kTiles[0].rows * kTiles[0].columns);
  const double waves = tiles / matrix.compute_units;
  if (matrix.grouped_lost_waves > 0) {
    return matrix.grouped_share * waves / (waves + matrix.grouped_lost_waves);
  }
  const double whole = waves / (waves + matrix.grouped_settled_waves);
  return matrix.grouped_share + (1 - matrix.grouped_share) * whole;
}

// Three products of one operator: forward, the gradient of the input and the gradient of the
// weights. A low precision applies only to operators that support it; the others run in bf16.
OperatorSeconds TimeOfMatmul(const DeviceMatrix& matrix, const spec::Operator& op,
                             Precision precision) {
  const bool low = op.low_precision && matrix.product(precision).operand_bytes < 2;
  const Precision used = low || precision == Precision::kFp32 ? precision : Precision::kBf16;
  const MatmulConstants& constants = matrix.product(used);
  const double width = WidthSlowdown(matrix, op.n, op.k);
  const double groups = op.groups;
  OperatorSeconds t;
  t.forward = width * MatmulSeconds(matrix, constants, op.m, op.n, op.k, groups);
  const double data = width * MatmulSeconds(matrix, constants, op.m, op.k, op.n, groups);
  t.weight_gradient = width * MatmulSeconds(matrix, constants, op.n, op.k, op.m, groups) /
                      matrix.weight_gradient_share;
  if (groups > 1 && op.parameters > 0) {
    // Operands of experts are read anew for few rows; the weight gradient reads and writes its
    // fp32 sum, about half of it beside the matmuls.
    const double rate = matrix.bandwidth_bytes_per_s;
    const double weights = constants.operand_bytes * op.parameters / rate;
    const double share = GroupedShare(matrix, op);
    t.forward = t.forward / share + weights;
    t.weight_gradient = t.weight_gradient / share + kAccumulateBytes * op.parameters / rate;
    t.backward += data * (1 / share - 1) + weights;
  }
  const bool experts = op.part == spec::OperatorPart::kExperts;
  t.backward += data + t.weight_gradient;
  if (experts) {
    const double factor = low ? matrix.low_expert_product_factor / matrix.grouped_low_share : 1;
    t.forward *= factor;
    t.backward *= factor;
    t.weight_gradient *= factor;
  }
  if (low) {
    const double slow = experts ? matrix.expert_stream_factor * matrix.low_expert_stream_factor : 1;
    t.forward += slow * QuantiseSeconds(matrix, constants, groups * op.m * op.k);
    t.backward += slow * QuantiseSeconds(matrix, constants, groups * op.m * op.n);
  }
  return t;
}

}  // namespace

double MatmulSeconds(const DeviceMatrix& matrix, const MatmulConstants& constants, double m,
                     double n, double k, double groups) {
  const double per_unit = constants.sustained_flops_per_s / matrix.compute_units;
  double best = 1e30;
  for (const Tile& tile : kTiles) {
    const double tiles = groups * std::ceil(m / tile.rows) * std::ceil(n / tile.columns);
    // Between a smooth fill of the units and whole waves of tiles, by the fitted share. The fastest
    // tile is taken for each product; below, the operands' bytes over the bandwidth are a lower
    // bound.
    const double filled = tiles / matrix.compute_units;
    const double waves = (1 - constants.wave_rounding) * std::max(filled, 1.0) +
                         constants.wave_rounding * std::ceil(filled);
    const double work = 2 * tile.rows * tile.columns * (k + constants.inner_overhead);
    best = std::min(best, waves * work / (per_unit * tile.rate));
  }
  const double bytes = groups * (constants.operand_bytes * k * (m + n) + 2 * m * n);
  return constants.launch_s + std::max(best, bytes / matrix.bandwidth_bytes_per_s);
}

OperatorSeconds TimeOf(const DeviceMatrix& matrix, const spec::Operator& op, Precision precision,
                       AttentionKernels kernels) {
  switch (op.kind) {
    case spec::OperatorKind::kMatmul:
      return TimeOfMatmul(matrix, op, precision);
    case spec::OperatorKind::kAttention:
      return TimeOfAttention(matrix, op, kernels);
    case spec::OperatorKind::kMemoryBound:
      break;
  }
  OperatorSeconds t;
  t.forward = StreamSeconds(matrix, op, op.forward_bytes, op.forward_kernels);
  t.backward = StreamSeconds(matrix, op, op.backward_bytes, op.backward_kernels);
  if (op.part == spec::OperatorPart::kExperts || op.part == spec::OperatorPart::kExpertActivation) {
    const bool low = matrix.product(precision).operand_bytes < 2;
    const double factor = matrix.expert_stream_factor * (low ? matrix.low_expert_stream_factor : 1);
    t.forward *= factor;
    t.backward *= factor;
  }
  return t;
}

bool IsBlackwell(const spec::Device& device) {
  return device.fp4.count() > 0 && !device.name.starts_with("mi");
}

DeviceMatrix ShippedMatrix(const spec::Device& device) {
  const GpuConstants& gpu = ConstantsOf(device);
  DeviceMatrix matrix;
  matrix.measured = gpu.measured;
  matrix.compute_units = std::max(1u, device.compute_units);
  matrix.bandwidth_bytes_per_s = gpu.bandwidth_share * device.memory_bandwidth.count();
  matrix.permute_bytes_per_s = 0.203 * device.memory_bandwidth.count();
  matrix.quantise_bytes_per_s = 0.593 * device.memory_bandwidth.count();
  matrix.scattered_bytes_per_s = 0.231 * device.memory_bandwidth.count();
  matrix.kernel_floor_s = 2.5e-6;
  // Before Blackwell experts' matmuls are one launch each.
  const bool together = IsBlackwell(device) || device.name.starts_with("mi");
  matrix.grouped_share = together ? 0.929 : 1;
  matrix.grouped_lost_waves = together ? 0 : 0.75;
  matrix.grouped_low_share = together ? 0.967 : 0.75;
  matrix.expert_stream_factor = together ? 1.172 : 1.4;

  MatmulConstants product;
  product.wave_rounding = gpu.wave_rounding;
  product.inner_overhead = gpu.inner_overhead;
  product.launch_s = 2.5e-6;
  product.sustained_flops_per_s = gpu.half_share * device.half.count();
  matrix.products[Index(Precision::kFp16)] = product;
  matrix.products[Index(Precision::kBf16)] = product;
  MatmulConstants single = product;
  single.sustained_flops_per_s = gpu.half_share * device.fp32.count();
  single.operand_bytes = 4;
  matrix.products[Index(Precision::kFp32)] = single;
  for (const Precision precision : {Precision::kFp8, Precision::kMxfp8, Precision::kNvfp4}) {
    MatmulConstants low = product;
    if (device.fp8.count() > 0 && gpu.fp8_share > 0) {
      low.sustained_flops_per_s = gpu.fp8_share * device.fp8.count();
      // A scale for each 32 elements, in rows and columns.
      if (precision == Precision::kMxfp8) low.sustained_flops_per_s *= 0.936;
      low.inner_overhead = 1.73 * gpu.inner_overhead;
      low.operand_bytes = 1;
    }
    if (precision == Precision::kNvfp4 && device.fp4.count() > 0 && gpu.fp4_share > 0) {
      low.sustained_flops_per_s = gpu.fp4_share * device.fp4.count();
      low.operand_bytes = 0.5625;  // a one-byte scale for each 16 elements of half a byte
    }
    matrix.products[Index(precision)] = low;
  }

  AttentionConstants& attention = matrix.attention;
  attention.forward_flops_per_s = gpu.attention_tflops * 1e12;
  attention.backward_slowdown = gpu.attention_backward;
  attention.first_share = gpu.first_share;
  attention.second_share = gpu.second_share;
  attention.block_queries = gpu.block_queries;
  attention.start_tokens = gpu.start_tokens;
  attention.head_exponent = gpu.head_exponent;
  attention.launch_s = 15e-6;
  // Tensor cores require rows of 16 bytes; whole tiles require 64 elements (A100's kernels).
  matrix.odd_width_slowdown = 6;
  matrix.ragged_width_slowdown = gpu.wave_rounding > 0.4 ? 1.15 : 1.05;
  return matrix;
}

}  // namespace longhaul::planner
