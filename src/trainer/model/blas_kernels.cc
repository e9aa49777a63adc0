#include "trainer/model/blas_kernels.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

namespace longhaul::trainer {
namespace {

// Those without AVX: what OpenBLAS falls back to.
constexpr std::array<std::string_view, 9> kWithoutAvx = {"Prescott",   "Core2",     "Penryn",
                                                         "Dunnington", "Nehalem",   "Atom",
                                                         "Generic",    "Barcelona", "Katmai"};

}  // namespace

VectorUnits VectorUnitsHere() {
  VectorUnits units;
#if defined(__x86_64__)
  units.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  units.avx512 = units.avx2 && __builtin_cpu_supports("avx512f") &&
                 __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  return units;
}

std::string BlasKernels() {
  using Name = char* (*)();
  const auto name = reinterpret_cast<Name>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  const char* const kernels = name == nullptr ? nullptr : name();
  return kernels == nullptr ? "" : kernels;
}

std::string BetterBlasKernels(std::string_view in_use, const VectorUnits& units) {
  const auto same = [in_use](std::string_view name) {
    return std::ranges::equal(name, in_use,
                              [](char a, char b) { return (a | 0x20) == (b | 0x20); });
  };
  if (std::ranges::none_of(kWithoutAvx, same)) return "";
  return units.avx512 ? "SkylakeX" : units.avx2 ? "Haswell" : "";
}

}  // namespace longhaul::trainer
