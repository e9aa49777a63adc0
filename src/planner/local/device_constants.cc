#include "planner/local/device_constants.h"

#include <algorithm>

#include "planner/local/operator_times.h"

namespace longhaul::planner {
namespace {

// Sizes of a middling layer, at which rates are taken.
constexpr double kRows = 1024;
constexpr double kWidth = 512;
constexpr double kHead = 64;
constexpr double kElementBytes = 2;  // what spec/model/operators.h counts an element as

// Bytes a second, as the operator list counts the bytes of a norm: two of each element read and
// written, four of each both ways backward.
double StreamRate(const OperatorTimes& times) {
  const OperatorTime norm = times.Of(FigureKind::kNorm, {kRows, kWidth, 0});
  const OperatorTime residual = times.Of(FigureKind::kResidual, {kRows, kWidth, 0});
  const double bytes = kElementBytes * kRows * kWidth;
  return ((2 + 4) + (3 + 2)) * bytes / (norm.total() + residual.total());
}

DeviceMatrix MatrixOf(const OperatorTimes& times) {
  DeviceMatrix matrix;
  matrix.measured = true;
  matrix.compute_units = 1;
  const OperatorTime launch = times.Of(FigureKind::kLaunch, {});
  const OperatorTime product = times.Of(FigureKind::kMatmul, {kRows, kWidth, kWidth});
  for (MatmulConstants& constants : matrix.products) {
    // Three matmuls of the same size: forward and both gradients.
    constants.sustained_flops_per_s = 6 * kRows * kWidth * kWidth / product.total();
    constants.launch_s = launch.forward_s;
  }
  const double heads = 16;
  const double sequence = 256;
  const OperatorTime attention = times.Of(FigureKind::kAttention, {heads, sequence, kHead});
  // The operator list counts the causal half; plain attention does the whole.
  const double flops = 2 * heads * sequence * sequence * kHead;
  matrix.attention.forward_flops_per_s = flops / attention.forward_s;
  matrix.attention.first_share = 1;
  matrix.attention.second_share = 1;
  matrix.attention.head_exponent = 0;
  matrix.attention.launch_s = launch.forward_s;
  matrix.attention.block_queries = 1;
  matrix.attention.backward_slowdown = attention.backward_s / (2.5 * attention.forward_s);
  const double rate = StreamRate(times);
  matrix.bandwidth_bytes_per_s = rate;
  matrix.permute_bytes_per_s = rate;
  matrix.quantise_bytes_per_s = rate;
  matrix.scattered_bytes_per_s = rate;
  matrix.kernel_floor_s = launch.forward_s;
  matrix.weight_gradient_share = 1;
  return matrix;
}

Links LinksOf(const OperatorTimes& times, uint32_t cores) {
  constexpr double kSmall = 1 << 14;
  constexpr double kLarge = 16 << 20;
  const double ranks = std::max(2u, cores);
  const double small = times.Of(FigureKind::kAllReduce, {ranks, kSmall, 0}).forward_s;
  const double large = times.Of(FigureKind::kAllReduce, {ranks, kLarge, 0}).forward_s;
  Links links;
  links.island = cores;
  links.island_latency_s = small;
  // A ring moves each byte 2 (r - 1) / r times over a rank's link.
  const double moved = 2 * (ranks - 1) / ranks * kLarge;
  links.island_bytes_per_s = moved / std::max(large - small, 0.1 * large);
  links.island_reduce_bytes_per_s = links.island_bytes_per_s;
  links.network_bytes_per_s = links.island_bytes_per_s;
  links.leaf = cores;
  return links;
}

}  // namespace

DeviceConstants ConstantsOf(const DeviceFile& file) {
  const OperatorTimes times(file.figures);
  DeviceConstants constants;
  constants.matrix = MatrixOf(times);
  constants.links = LinksOf(times, file.cores);
  constants.stack.launch_s = 0;  // the host is the device: launches are in the figures
  constants.stack.step_fixed_s = 0;
  constants.stack.overlap_tax = 0;
  constants.stack.gradient_hidden = 0;
  constants.stack.straggle = 0;
  spec::Device& device = constants.cluster.device;
  device.name = "cpu";
  device.memory = Bytes(file.memory.count() / file.cores);
  device.fp32 = FlopsPerSecond(times.best_flops_per_s());
  device.half = device.fp32;
  device.compute_units = 1;
  // What is offloaded stays where it was: a copy in memory.
  constexpr double kCopied = 64 << 20;
  device.host_bandwidth =
      BytesPerSecond(kCopied / times.Of(FigureKind::kCopy, {kCopied, 0, 0}).forward_s);
  device.memory_bandwidth = BytesPerSecond(constants.matrix.bandwidth_bytes_per_s);
  device.island_bandwidth = BytesPerSecond(constants.links.island_bytes_per_s);
  constants.cluster.network.per_device = device.island_bandwidth;
  constants.cluster.network.rails = 1;
  constants.cluster.devices = file.cores;
  constants.cluster.devices_per_node = file.cores;
  constants.cluster.island = file.cores;
  return constants;
}

}  // namespace longhaul::planner
