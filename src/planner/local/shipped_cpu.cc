// What `longhaul calibrate` measured on two cores of an AMD EPYC of family 26 (Zen 5, virtual,
// OpenBLAS, libtorch 1.13), for machines that have no device file yet.
#include <cmath>

#include "planner/local/cost.h"

namespace longhaul::planner {
namespace {

using enum FigureKind;
using namespace longhaul::literals;

constexpr FlopsPerSecond kCorePeak(121.1e9);  // of that machine, 512 x 512 matmuls
constexpr Bytes kProcessMemory = 84_MiB;

struct Row {
  FigureKind kind;
  double sizes[3];
  double forward_us;
  double backward_us;
};

// clang-format off
constexpr Row kProcessorRows[] = {
    {kLaunch, {0, 0, 0}, 1.983, 3.237},
    {kMatmul, {64, 128, 128}, 26.29, 59.12},
    {kMatmul, {1024, 128, 128}, 349.4, 713.3},
    {kMatmul, {1024, 512, 128}, 1237, 2621},
    {kMatmul, {1024, 128, 512}, 1294, 2546},
    {kMatmul, {8192, 128, 128}, 2823, 5808},
    {kMatmul, {64, 1024, 1024}, 1353, 2806},
    {kMatmul, {512, 1024, 1024}, 9104, 1.846e+04},
    {kMatmul, {256, 2048, 512}, 4940, 1.055e+04},
    {kAttention, {4, 64, 16}, 54.9, 102.4},
    {kAttention, {32, 128, 32}, 1363, 2228},
    {kAttention, {8, 512, 64}, 7617, 1.399e+04},
    {kAttention, {2, 1024, 128}, 1.173e+04, 2.234e+04},
    {kNorm, {64, 128, 0}, 6.58, 10.66},
    {kNorm, {256, 128, 0}, 21.31, 21.32},
    {kNorm, {1024, 128, 0}, 75.73, 53.08},
    {kNorm, {4096, 128, 0}, 289.8, 176.7},
    {kNorm, {64, 512, 0}, 17.58, 24.32},
    {kNorm, {256, 512, 0}, 60.13, 58.89},
    {kNorm, {1024, 512, 0}, 224.2, 192.6},
    {kNorm, {4096, 512, 0}, 968.2, 890.2},
    {kActivation, {64, 512, 0}, 78.11, 85.15},
    {kActivation, {256, 512, 0}, 309.2, 330.3},
    {kActivation, {1024, 512, 0}, 1230, 1306},
    {kActivation, {4096, 512, 0}, 4971, 5303},
    {kActivation, {64, 2048, 0}, 309.2, 331},
    {kActivation, {256, 2048, 0}, 1225, 1297},
    {kActivation, {1024, 2048, 0}, 4838, 5149},
    {kResidual, {64, 128, 0}, 2.391, 6.115},
    {kResidual, {256, 128, 0}, 5.901, 9.906},
    {kResidual, {1024, 128, 0}, 16.86, 21.01},
    {kResidual, {4096, 128, 0}, 46.28, 63.05},
    {kResidual, {64, 512, 0}, 5.903, 9.94},
    {kResidual, {256, 512, 0}, 16.42, 20.55},
    {kResidual, {1024, 512, 0}, 50.1, 60.29},
    {kResidual, {4096, 512, 0}, 357.4, 434.5},
    {kLoss, {64, 257, 0}, 13.28, 15.41},
    {kLoss, {256, 257, 0}, 53.46, 53.45},
    {kLoss, {1024, 257, 0}, 210.7, 182.4},
    {kLoss, {4096, 257, 0}, 879.1, 750.2},
    {kEmbedding, {64, 128, 0}, 28.58, 59.48},
    {kEmbedding, {256, 128, 0}, 50.55, 88.72},
    {kEmbedding, {1024, 128, 0}, 150.7, 210.3},
    {kEmbedding, {4096, 128, 0}, 681.9, 786.9},
    {kEmbedding, {64, 512, 0}, 73.05, 167.9},
    {kEmbedding, {256, 512, 0}, 194.3, 261.8},
    {kEmbedding, {1024, 512, 0}, 726.9, 595.4},
    {kEmbedding, {4096, 512, 0}, 4426, 2392},
    {kOptimizer, {50000, 0, 0}, 33.04, 0},
    {kOptimizer, {250000, 0, 0}, 168.8, 0},
    {kOptimizer, {1250000, 0, 0}, 895.7, 0},
    {kOptimizer, {6250000, 0, 0}, 5021, 0},
    {kAllReduce, {2, 16384, 0}, 84.34, 0},
    {kAllReduce, {2, 262144, 0}, 113.4, 0},
    {kAllReduce, {2, 4194304, 0}, 2233, 0},
    {kAllReduce, {2, 67108864, 0}, 3.222e+04, 0},
    {kAllReduce, {4, 16384, 0}, 913.1, 0},
    {kAllReduce, {4, 262144, 0}, 1008, 0},
    {kAllReduce, {4, 4194304, 0}, 3812, 0},
    {kAllReduce, {4, 67108864, 0}, 7.36e+04, 0},
    {kAllReduce, {8, 16384, 0}, 3282, 0},
    {kAllReduce, {8, 262144, 0}, 3507, 0},
    {kAllReduce, {8, 4194304, 0}, 9404, 0},
    {kAllReduce, {8, 67108864, 0}, 1.797e+05, 0},
    {kCopy, {67108864, 0, 0}, 3458, 0},
    {kStorage, {1048576, 0, 0}, 511.9, 0},
    {kStorage, {33554432, 0, 0}, 1.882e+04, 0},
    {kMatmul, {32, 32, 32}, 3.806, 13.56},
    {kMatmul, {32, 4096, 4096}, 1.356e+04, 3.607e+04},
    {kMatmul, {4096, 256, 1024}, 1.943e+04, 3.669e+04},
    {kMatmul, {256, 32, 32}, 8.582, 24.01},
    {kMatmul, {8192, 32, 32}, 203.9, 489.1},
    {kMatmul, {32, 256, 32}, 9.233, 24.52},
    {kMatmul, {512, 512, 4096}, 1.84e+04, 3.699e+04},
    {kMatmul, {32, 32, 256}, 9.483, 24.44},
    {kMatmul, {8192, 1024, 128}, 2.02e+04, 4.621e+04},
    {kMatmul, {32, 4096, 512}, 1680, 3798},
    {kMatmul, {32, 512, 4096}, 1616, 3518},
    {kMatmul, {8192, 32, 256}, 1926, 3619},
    {kMatmul, {2048, 32, 32}, 61.65, 136},
    {kMatmul, {512, 4096, 512}, 1.883e+04, 3.923e+04},
    {kMatmul, {256, 256, 32}, 55.84, 129.3},
    {kMatmul, {2048, 2048, 256}, 1.858e+04, 4.057e+04},
    {kAttention, {128, 32, 128}, 2161, 5292},
    {kAttention, {2, 256, 16}, 253.9, 381.4},
    {kAttention, {2, 32, 16}, 28.71, 71.67},
    {kAttention, {128, 256, 128}, 5.718e+04, 1.158e+05},
    {kAttention, {128, 64, 128}, 5639, 1.357e+04},
    {kAttention, {2, 128, 128}, 237.1, 509},
    {kAttention, {8, 1024, 16}, 1.625e+04, 2.183e+04},
    {kAttention, {128, 32, 16}, 605.6, 1002},
};
// clang-format on

}  // namespace

DeviceFile ShippedCpu(FlopsPerSecond core_peak) {
  const double ratio = kCorePeak.count() / core_peak.count();
  DeviceFile file;
  file.machine = "shipped";
  file.cores = 1;
  file.memory = 1_GiB;
  file.process_memory = kProcessMemory;
  for (const Row& row : kProcessorRows) {
    const bool computes = row.kind == kMatmul || row.kind == kAttention;
    const double scale = 1e-6 * (computes ? ratio : 1);
    Figure figure;
    figure.kind = row.kind;
    figure.sizes = {row.sizes[0], row.sizes[1], row.sizes[2]};
    figure.forward_s = scale * row.forward_us;
    figure.backward_s = scale * row.backward_us;
    figure.repeats = 1;
    file.figures.push_back(figure);
  }
  return file;
}

}  // namespace longhaul::planner
