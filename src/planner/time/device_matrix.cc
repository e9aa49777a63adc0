#include "planner/time/device_matrix.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace longhaul::planner {
namespace {

using spec::Precision;

size_t Index(Precision precision) { return static_cast<size_t>(precision); }

// A card's constants as fitted. Shares are of the sheet's peak or bandwidth.
struct CardConstants {
  std::string_view name;
  double half_share = 0;  // of the half-precision peak, sustained in training
  double fp8_share = 0;
  double fp4_share = 0;
  double wave_rounding = 0;
  double inner_overhead = 0;
  double attention_tflops = 0;
  double attention_backward = 0;
  double attention_start = 0;
  double bandwidth_share = 0;
  bool measured = false;
};

// Shapes: aiconfigurator's kernel tables (ai-dynamo, Apache-2.0, systems/data at 095f58a51c);
// levels: published training steps of the tuning rows. MI325X and MI355X: Primus rows; MI300X as
// MI325X; cards without a row: their nearest relative.
constexpr CardConstants kCards[] = {
    {"a100-40gb-sxm", 0.79, 0, 0, 0.45, 148, 190, 1.30, 250, 0.80, true},
    {"a100-80gb-sxm", 0.79, 0, 0, 0.45, 148, 190, 1.30, 250, 0.80, true},
    {"a800-80gb", 0.79, 0, 0, 0.45, 148, 190, 1.30, 250, 0.80, false},
    {"h100-sxm", 0.70, 0.55, 0, 0.05, 220, 560, 1.30, 990, 0.74, true},
    {"h100-96gb-sxm", 0.70, 0.55, 0, 0.05, 220, 560, 1.30, 990, 0.74, false},
    {"h800-sxm", 0.70, 0.55, 0, 0.05, 220, 560, 1.30, 990, 0.74, false},
    {"h200-sxm", 0.70, 0.55, 0, 0.05, 220, 560, 1.30, 990, 0.66, true},
    {"b200-sxm", 0.60, 0.50, 0.40, 0.08, 180, 1000, 1.30, 1000, 0.70, true},
    {"b300-sxm", 0.60, 0.50, 0.40, 0.08, 180, 1000, 1.30, 1000, 0.70, false},
    {"gb200-nvl72", 0.60, 0.48, 0.40, 0.08, 180, 1050, 1.30, 800, 0.70, true},
    {"gb300-nvl72", 0.60, 0.48, 0.40, 0.08, 180, 1050, 1.30, 800, 0.70, false},
    {"mi300x", 0.45, 0.38, 0, 0.3, 300, 420, 1.4, 900, 0.70, false},
    {"mi325x", 0.45, 0.38, 0, 0.3, 300, 420, 1.4, 900, 0.70, false},
    {"mi355x", 0.50, 0.42, 0.3, 0.3, 300, 800, 1.4, 900, 0.70, false},
    {"l40s", 0.60, 0.50, 0, 0.3, 150, 160, 1.3, 300, 0.80, false},
    {"a10", 0.65, 0, 0, 0.45, 148, 60, 1.3, 300, 0.80, false},
};

const CardConstants& ConstantsOf(const spec::Device& device) {
  for (const CardConstants& card : kCards) {
    if (card.name == device.name) return card;
  }
  // An unknown card is treated as the nearest generation by whether it has fp8 and fp4 units.
  const std::string_view like = device.fp4.count() > 0   ? "b300-sxm"
                                : device.fp8.count() > 0 ? "h800-sxm"
                                                         : "a800-80gb";
  for (const CardConstants& card : kCards) {
    if (card.name == like) return card;
  }
  return kCards[0];
}

struct Tile {
  double rows;
  double columns;
  double rate;  // against the largest tile
};
constexpr Tile kTiles[] = {{256, 128, 1.0}, {128, 128, 0.92}, {128, 64, 0.75}};

double AttentionRate(const AttentionConstants& attention, double head_dim) {
  const double dim = std::min(head_dim, 256.0);
  return attention.forward_flops_per_s * std::pow(dim / 128, attention.head_exponent);
}

double StreamSeconds(const DeviceMatrix& matrix, const spec::Operator& op, double bytes,
                     double kernels) {
  const bool scattered =
      op.part == spec::OperatorPart::kExperts || op.part == spec::OperatorPart::kVocabulary;
  const double rate = scattered ? matrix.scattered_bytes_per_s : matrix.bandwidth_bytes_per_s;
  return std::max(bytes / rate, kernels * matrix.kernel_floor_s);
}

// Quantising an operand: read in two bytes, written in rows and, for its transpose, in columns.
double QuantiseSeconds(const DeviceMatrix& matrix, const ProductConstants& constants,
                       double elements) {
  return elements * (2 + 2 * constants.operand_bytes) / matrix.bandwidth_bytes_per_s +
         matrix.kernel_floor_s;
}

OperatorSeconds TimeOfProduct(const DeviceMatrix& matrix, const spec::Operator& op,
                              Precision precision) {
  const bool low = op.low_precision && matrix.product(precision).operand_bytes < 2;
  const Precision used = low || precision == Precision::kFp32 ? precision : Precision::kBf16;
  const ProductConstants& constants = matrix.product(used);
  const double share = op.groups > 1 ? matrix.grouped_product_share : 1;
  // One launch for all groups; their tiles share the waves.
  const double groups = op.groups;
  OperatorSeconds t;
  t.forward = ProductSeconds(matrix, constants, op.m, op.n, op.k, groups) / share;
  const double data = ProductSeconds(matrix, constants, op.m, op.k, op.n, groups) / share;
  t.weight_gradient = ProductSeconds(matrix, constants, op.n, op.k, op.m, groups) /
                      (share * matrix.weight_gradient_share);
  if (low) {
    t.forward += QuantiseSeconds(matrix, constants, groups * op.m * op.k);
    t.backward += QuantiseSeconds(matrix, constants, groups * op.m * op.n);
  }
  t.backward += data + t.weight_gradient;
  return t;
}

}  // namespace

double ProductSeconds(const DeviceMatrix& matrix, const ProductConstants& constants, double m,
                      double n, double k, double groups) {
  const double per_unit = constants.sustained_flops_per_s / matrix.compute_units;
  double best = 1e30;
  for (const Tile& tile : kTiles) {
    const double tiles = groups * std::ceil(m / tile.rows) * std::ceil(n / tile.columns);
    const double filled = tiles / matrix.compute_units;
    const double waves = (1 - constants.wave_rounding) * std::max(filled, 1.0) +
                         constants.wave_rounding * std::ceil(filled);
    const double work = 2 * tile.rows * tile.columns * (k + constants.inner_overhead);
    best = std::min(best, waves * work / (per_unit * tile.rate));
  }
  const double bytes = groups * (constants.operand_bytes * k * (m + n) + 2 * m * n);
  return constants.launch_s + std::max(best, bytes / matrix.bandwidth_bytes_per_s);
}

OperatorSeconds TimeOf(const DeviceMatrix& matrix, const spec::Operator& op, Precision precision) {
  switch (op.kind) {
    case spec::OperatorKind::kProduct:
      return TimeOfProduct(matrix, op, precision);
    case spec::OperatorKind::kAttention: {
      const AttentionConstants& attention = matrix.attention;
      const double slow = 1 + attention.start_tokens / std::max(2 * op.keys, 1.0);
      const double work = op.forward_flops * slow / AttentionRate(attention, op.head_dim);
      OperatorSeconds t;
      t.forward = attention.launch_s + work;
      t.backward = 2 * attention.launch_s + work * 2.5 * attention.backward_slowdown;
      return t;
    }
    case spec::OperatorKind::kMemoryBound:
      break;
  }
  OperatorSeconds t;
  t.forward = StreamSeconds(matrix, op, op.forward_bytes, op.forward_kernels);
  t.backward = StreamSeconds(matrix, op, op.backward_bytes, op.backward_kernels);
  return t;
}

DeviceMatrix ShippedMatrix(const spec::Device& device) {
  const CardConstants& card = ConstantsOf(device);
  DeviceMatrix matrix;
  matrix.measured = card.measured;
  matrix.compute_units = std::max(1u, device.compute_units);
  matrix.bandwidth_bytes_per_s = card.bandwidth_share * device.memory_bandwidth.count();
  matrix.scattered_bytes_per_s = 0.45 * device.memory_bandwidth.count();
  matrix.kernel_floor_s = 2.5e-6;

  ProductConstants product;
  product.wave_rounding = card.wave_rounding;
  product.inner_overhead = card.inner_overhead;
  product.launch_s = 2.5e-6;
  product.sustained_flops_per_s = card.half_share * device.half.count();
  matrix.products[Index(Precision::kFp16)] = product;
  matrix.products[Index(Precision::kBf16)] = product;
  ProductConstants single = product;
  single.sustained_flops_per_s = card.half_share * device.fp32.count();
  single.operand_bytes = 4;
  matrix.products[Index(Precision::kFp32)] = single;
  for (const Precision precision : {Precision::kFp8, Precision::kMxfp8, Precision::kNvfp4}) {
    ProductConstants low = product;
    if (device.fp8.count() > 0 && card.fp8_share > 0) {
      low.sustained_flops_per_s = card.fp8_share * device.fp8.count();
      low.operand_bytes = 1;
    }
    if (precision == Precision::kNvfp4 && device.fp4.count() > 0 && card.fp4_share > 0) {
      low.sustained_flops_per_s = card.fp4_share * device.fp4.count();
      low.operand_bytes = 0.5625;  // a one-byte scale for each 16 elements of half a byte
    }
    matrix.products[Index(precision)] = low;
  }

  matrix.attention.forward_flops_per_s = card.attention_tflops * 1e12;
  matrix.attention.backward_slowdown = card.attention_backward;
  matrix.attention.start_tokens = card.attention_start;
  matrix.attention.launch_s = 5e-6;
  return matrix;
}

}  // namespace longhaul::planner
