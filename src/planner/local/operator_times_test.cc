#include "planner/local/operator_times.h"

#include <gtest/gtest.h>

#include "planner/local/cost.h"

namespace longhaul::planner {
namespace {

Figure Matmul(double m, double n, double k, double flops_per_s) {
  Figure figure;
  figure.sizes = {m, n, k};
  figure.forward_s = 2 * m * n * k / flops_per_s;
  figure.backward_s = 2 * figure.forward_s;
  figure.repeats = 3;
  return figure;
}

// A machine of one speed: sizes between and beyond the measured ones take their FLOPs' time.
TEST(OperatorTimes, FindsTheTimeOfAnUnmeasuredSize) {
  std::vector<Figure> figures;
  for (double m = 256; m <= 4096; m *= 4) {
    for (double n = 256; n <= 4096; n *= 4) figures.push_back(Matmul(m, n, 512, 1e11));
  }
  const OperatorTimes times(figures);
  for (const auto& [m, n, k] :
       {std::array{512.0, 512.0, 512.0}, {2048.0, 1024.0, 512.0}, {8192.0, 8192.0, 4096.0}}) {
    const OperatorTime time = times.Of(FigureKind::kMatmul, {m, n, k});
    EXPECT_NEAR(time.forward_s / (2 * m * n * k / 1e11), 1, 0.03) << m;
    EXPECT_NEAR(time.backward_s / (4 * m * n * k / 1e11), 1, 0.03) << m;
  }
  EXPECT_DOUBLE_EQ(times.best_flops_per_s(), 1e11);
}

TEST(OperatorTimes, DoubtsWhatWasNotMeasured) {
  const OperatorTimes times(std::vector{Matmul(256, 256, 256, 1e11), Matmul(512, 256, 256, 9e10),
                                        Matmul(256, 512, 256, 8e10)});
  EXPECT_GT(times.Doubt(FigureKind::kMatmul, {8192, 64, 2048}),
            2 * times.Doubt(FigureKind::kMatmul, {256, 256, 256}));
}

TEST(OperatorTimes, HasAnAnswerForEveryKindWithoutFigures) {
  const OperatorTimes times({});
  for (size_t kind = 0; kind < kFigureKinds; ++kind) {
    EXPECT_GT(times.Of(FigureKind(kind), {64, 64, 64}).total(), 0) << kind;
    EXPECT_EQ(times.LeftOutError(FigureKind(kind)), 0);
  }
}

TEST(OperatorTimes, GrowsWithTheSizeOnTheShippedMachine) {
  const DeviceFile shipped = ShippedCpu(FlopsPerSecond(1e11));
  const OperatorTimes times(shipped.figures);
  for (size_t kind = 0; kind < kFigureKinds; ++kind) {
    // A launch has no size, and on full cores the latency of an all-reduce is as good as noise.
    if (FigureKind(kind) == FigureKind::kLaunch) continue;
    if (FigureKind(kind) == FigureKind::kAllReduce) continue;
    if (FigureKind(kind) == FigureKind::kRuntime) continue;
    double before = 0;
    for (double size = 64; size <= 4096; size *= 8) {
      const double now = times.Of(FigureKind(kind), {size, 128, 64}).total();
      EXPECT_GT(now, before) << kind << " " << size;
      before = now;
    }
  }
}

TEST(ShippedCpu, ScalesMatmulsWithTheCoreAndMemoryNot) {
  const DeviceFile slow = ShippedCpu(FlopsPerSecond(5e10));
  const DeviceFile fast = ShippedCpu(FlopsPerSecond(1e11));
  ASSERT_EQ(slow.figures.size(), fast.figures.size());
  for (size_t i = 0; i < slow.figures.size(); ++i) {
    const bool computes = slow.figures[i].kind == FigureKind::kMatmul ||
                          slow.figures[i].kind == FigureKind::kAttention;
    EXPECT_NEAR(slow.figures[i].forward_s / fast.figures[i].forward_s, computes ? 2 : 1, 1e-9);
  }
}

}  // namespace
}  // namespace longhaul::planner
