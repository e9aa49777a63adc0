// The FLOPs and bytes of an operator with known shapes.
//
// Multiply-adds count as two. Products by their PyTorch names (mm, addmm, bmm, linear, matmul,
// convolution), attention as scaled_dot_product and flash kernels (full square; backward 2.5 times
// the forward: five products instead of two, Dao et al. 2022). Bytes are one read or write of each
// operand. An unknown operator has no work: its time is shown as not counted.
#pragma once

#include <string_view>

namespace longhaul::profiler {

struct Work {
  double flops = 0;
  double bytes = 0;
  double element_bytes = 0;  // of the first operand; 0: unknown
};

// `shapes` as stored in the trace: the raw "Input Dims", a bar, the raw "Input type".
Work WorkOf(std::string_view op, std::string_view shapes);

}  // namespace longhaul::profiler
