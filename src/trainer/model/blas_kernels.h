// Which of its kernels OpenBLAS uses.
//
// OpenBLAS chooses them by the processor's model when it is loaded. For a model that is newer than
// itself it may choose kernels without AVX: OpenBLAS 0.3.21 chose those for Prescott on an Intel
// Xeon of 2023, and multiplied matrices at 40 instead of 201 GFLOP/s a core. OPENBLAS_CORETYPE
// names others.
#pragma once

#include <string>
#include <string_view>

namespace longhaul::trainer {

struct VectorUnits {
  bool avx2 = false;    // with fused multiply-add
  bool avx512 = false;  // F, CD, BW, DQ and VL, as SkylakeX has them
};

VectorUnits VectorUnitsHere();

// The name of the kernels in use; empty where BLAS is not OpenBLAS.
std::string BlasKernels();

// The value of OPENBLAS_CORETYPE that is better for a processor with these units; empty: none.
std::string BetterBlasKernels(std::string_view in_use, const VectorUnits& units);

}  // namespace longhaul::trainer
