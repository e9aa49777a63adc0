// The speed of a training's operators on one GPU: matmuls, attention, memory-bound kernels.
//
// The cost of a product is whole tiles in waves over the compute units, each with a start-up of k0
// inner elements, and at least the time to move its operands:
//   t = t0 + max(waves(tiles) * 2 Tm Tn (k + k0) / (sustained / units), bytes / bandwidth)
// with the best of three tiles; `wave_rounding` is how far a partly filled last wave costs a full
// one (1: the plain staircase of A100; near 0: persistent kernels of Hopper and later). Attention
// costs t0 + FLOPs (1 + s0 / s) / rate. The shipped constants are fitted to published tables of
// single kernels, and one level for each GPU and precision to published training steps: kernels
// measured alone are faster than a GPU can sustain under its power limit. device_matrix.cc has each
// constant's source. Leaves out clocks, temperature and differences between GPUs of one kind.
#pragma once

#include <array>

#include "spec/cluster/device.h"
#include "spec/model/operators.h"

namespace longhaul::planner {

struct MatmulConstants {
  double sustained_flops_per_s = 0;  // at the best shape, in training
  double wave_rounding = 0;          // 0..1
  double inner_overhead = 0;         // k0, elements
  double launch_s = 0;               // t0
  double operand_bytes = 2;          // of an element that is read
};

// A framework's attention kernels: on newer GPUs their rates differ by a factor of two and more.
enum class AttentionKernels {
  kFirst,   // FlashAttention 1 and its Triton port, 2022
  kSecond,  // FlashAttention 2, 2023: no use of the newer GPUs' asynchronous matmuls
  kNative,  // FlashAttention 3 and later, cuDNN: written for the GPU
};

struct AttentionConstants {
  double forward_flops_per_s = 0;   // of native kernels at a head of 128
  double first_share = 0.5;         // of that, with kFirst
  double second_share = 0.8;        // with kSecond
  double backward_slowdown = 1.24;  // time of a backward FLOP (5 matmuls for 2) over a forward
  double launch_s = 0;
  double start_tokens = 0;              // s0
  double block_queries = 128;           // of the tail
  double head_exponent = 0.6;           // rate of a head of d < 128: (d / 128)^exponent
  double uneven_heads_forward = 0.945;  // rate where queries and values differ in width
  double uneven_heads_backward = 0.82;
};

struct DeviceMatrix {
  std::array<MatmulConstants, 6> products;  // by spec::Precision
  AttentionConstants attention;
  double compute_units = 0;
  double bandwidth_bytes_per_s = 0;    // streaming kernels
  double permute_bytes_per_s = 0;      // dispatch to experts and back
  double quantise_bytes_per_s = 0;     // to fp8 and below, with scales and a transposed copy
  double scattered_bytes_per_s = 0;    // look-up, fused loss
  double kernel_floor_s = 0;           // shortest kernel
  double odd_width_slowdown = 1;       // of a product whose inner or outer width 8 does not divide
  double ragged_width_slowdown = 1;    // the same for 64
  double grouped_share = 1;            // rate of grouped matmuls against one of their tiles
  double grouped_settled_waves = 4.9;  // of one expert's product: half way from there to one
  double grouped_low_share = 1;        // beside that, where experts' matmuls are below two bytes
  double grouped_lost_waves = 0;       // of each expert's product where it has its own launch
  double expert_stream_factor = 1;     // of kernels that move, quantise and activate around experts
  // For experts' matmuls below two bytes, and for the other kernels around them: less than one
  // where one kernel does activation, scales and matmuls.
  double low_expert_product_factor = 1;
  double low_expert_stream_factor = 1;
  double weight_gradient_share = 0.95;  // rate with accumulation in fp32
  bool measured = false;  // constants from this GPU's own tables, not scaled by its datasheet

  const MatmulConstants& product(spec::Precision precision) const {
    return products[static_cast<size_t>(precision)];
  }
};

// NVIDIA's generation of 2024 and later, with units for four-bit matmuls.
bool IsBlackwell(const spec::Device& device);

// The shipped matrix of a GPU; for a GPU without one, that of the nearest measured GPU, scaled by
// the ratio of their datasheets.
DeviceMatrix ShippedMatrix(const spec::Device& device);

// Seconds of `groups` matmuls y[m x n] = x[m x k] W in one launch. Requires positive sizes.
double MatmulSeconds(const DeviceMatrix& matrix, const MatmulConstants& constants, double m,
                     double n, double k, double groups = 1);

struct OperatorSeconds {
  double forward = 0;
  double backward = 0;         // both gradients
  double weight_gradient = 0;  // the part of backward that zero-bubble schedules move
};

// An operator alone on the GPU, without collectives.
OperatorSeconds TimeOf(const DeviceMatrix& matrix, const spec::Operator& op,
                       spec::Precision precision,
                       AttentionKernels kernels = AttentionKernels::kNative);

}  // namespace longhaul::planner
