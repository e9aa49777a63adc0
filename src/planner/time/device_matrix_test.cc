#include "planner/time/device_matrix.h"

#include <gtest/gtest.h>

#include <random>

namespace longhaul::planner {
namespace {

using spec::Precision;

DeviceMatrix MatrixOf(const std::string& name) { return ShippedMatrix(*spec::FindDevice(name)); }

TEST(DeviceMatrix, NoMatmulExceedsTheSheet) {
  std::mt19937_64 rng(1);
  for (const std::string& name : spec::DeviceNames()) {
    if (name == "cpu") continue;
    const spec::Device device = *spec::FindDevice(name);
    const DeviceMatrix matrix = ShippedMatrix(device);
    for (int i = 0; i < 200; ++i) {
      const double m = 64.0 * static_cast<double>(1 + rng() % 512);
      const double n = 64.0 * static_cast<double>(1 + rng() % 512);
      const double k = 64.0 * static_cast<double>(1 + rng() % 512);
      const auto rate = [&](Precision precision) {
        return 2 * m * n * k / MatmulSeconds(matrix, matrix.product(precision), m, n, k);
      };
      ASSERT_LT(rate(Precision::kBf16), 0.85 * device.half.count()) << name;
      const double low = std::max(device.half.count(), device.fp8.count());
      ASSERT_LT(rate(Precision::kFp8), 0.85 * low) << name;
    }
  }
}

TEST(DeviceMatrix, MoreWorkNeverTakesLess) {
  std::mt19937_64 rng(2);
  const DeviceMatrix matrix = MatrixOf("h100-sxm");
  const MatmulConstants& half = matrix.product(Precision::kBf16);
  for (int i = 0; i < 2'000; ++i) {
    const double m = static_cast<double>(1 + rng() % 20'000);
    const double n = static_cast<double>(1 + rng() % 20'000);
    const double k = static_cast<double>(1 + rng() % 20'000);
    const double t = MatmulSeconds(matrix, half, m, n, k);
    SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k);
    ASSERT_LE(t, MatmulSeconds(matrix, half, m + 1, n, k));
    ASSERT_LE(t, MatmulSeconds(matrix, half, m, n + 1, k));
    ASSERT_LE(t, MatmulSeconds(matrix, half, m, n, k + 1));
  }
}

// The staircase of an A100: one row more than three waves of tiles costs most of another wave.
TEST(DeviceMatrix, APartFilledWaveCostsMoreOnA100ThanOnH100) {
  const auto jump = [](const std::string& name, double full) {
    const DeviceMatrix matrix = MatrixOf(name);
    const MatmulConstants& half = matrix.product(Precision::kBf16);
    return MatmulSeconds(matrix, half, full + 1, 4096, 4096) /
           MatmulSeconds(matrix, half, full, 4096, 4096);
  };
  EXPECT_GT(jump("a100-80gb-sxm", 768), 1.2);
  EXPECT_LT(jump("h100-sxm", 4096), 1.1);
}

// SimuMax's B200 kernels: 128 rows an expert reach about 0.4 of what 1,024 and more rows do.
TEST(DeviceMatrix, FewRowsAnExpertAreSlow) {
  const DeviceMatrix matrix = MatrixOf("b200-sxm");
  spec::Operator op;
  op.kind = spec::OperatorKind::kMatmul;
  op.part = spec::OperatorPart::kExperts;
  op.n = 4096;
  op.k = 7168;
  const auto rate = [&](double rows, double groups) {
    op.m = rows;
    op.groups = groups;
    op.parameters = groups * op.n * op.k;
    return 2 * rows * groups * op.n * op.k / TimeOf(matrix, op, Precision::kBf16).forward;
  };
  EXPECT_NEAR(rate(128, 256) / rate(1024, 32), 0.45, 0.12);
}

// H100, 64 heads of 128 over 4,096 tokens: the table has 565 TF/s alone on the GPU, a training
// about four fifths of that.
TEST(DeviceMatrix, AttentionIsBelowItsTableAndFarAboveOldKernels) {
  const DeviceMatrix matrix = MatrixOf("h100-sxm");
  spec::Operator op;
  op.kind = spec::OperatorKind::kAttention;
  op.batch_heads = 64;
  op.queries = 4096;
  op.keys = 2048;
  op.head_dim = 128;
  op.forward_flops = 2.0 * 64 * 4096 * 2048 * 256;
  const auto rate = [&](AttentionKernels kernels) {
    return op.forward_flops / TimeOf(matrix, op, Precision::kBf16, kernels).forward;
  };
  EXPECT_NEAR(rate(AttentionKernels::kNative), 465e12, 25e12);
  EXPECT_LT(rate(AttentionKernels::kFirst), 0.45 * rate(AttentionKernels::kNative));
}

TEST(DeviceMatrix, Fp8IsFasterWhereTheGpuHasIt) {
  spec::Operator op;
  op.kind = spec::OperatorKind::kMatmul;
  op.low_precision = true;
  op.m = 8192;
  op.n = 8192;
  op.k = 8192;
  const auto gain = [&](const std::string& name) {
    const DeviceMatrix matrix = MatrixOf(name);
    return TimeOf(matrix, op, Precision::kBf16).forward /
           TimeOf(matrix, op, Precision::kFp8).forward;
  };
  EXPECT_GT(gain("h100-sxm"), 1.4);
  EXPECT_DOUBLE_EQ(gain("a100-80gb-sxm"), 1);
}

// A launch for each expert fills the GPU badly with few rows; with many it costs what one product
// of all rows costs.
TEST(DeviceMatrix, ExpertsNearOneMatmulsRateAsTheirRowsGrow) {
  const DeviceMatrix matrix = MatrixOf("h100-sxm");
  const auto seconds = [&](double groups, double rows) {
    spec::Operator op;
    op.kind = spec::OperatorKind::kMatmul;
    op.part = spec::OperatorPart::kExperts;
    op.groups = groups;
    op.m = rows;
    op.n = op.k = 4096;
    op.parameters = groups * op.n * op.k;
    return TimeOf(matrix, op, Precision::kBf16).forward;
  };
  EXPECT_GT(seconds(8, 512), 1.5 * seconds(1, 8 * 512));
  EXPECT_LT(seconds(8, 65'536), 1.1 * seconds(1, 8 * 65'536));
}

}  // namespace
}  // namespace longhaul::planner
