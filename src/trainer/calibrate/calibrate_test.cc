#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "trainer/calibrate/peak.h"
#include "trainer/calibrate/probe.h"
#include "trainer/calibrate/worker_pool.h"
#include "trainer/model/model.h"
#include "trainer/model/tensor_pool.h"
#include "trainer/worker/process_memory.h"

namespace longhaul::trainer {
namespace {

using planner::Figure;
using planner::FigureKind;

Figure Of(FigureKind kind) {
  Figure figure;
  figure.kind = kind;
  for (size_t i = 0; i < planner::SizeNames(kind).size(); ++i) figure.sizes[i] = 32;
  if (kind == FigureKind::kStorage || kind == FigureKind::kCopy) figure.sizes[0] = 1 << 16;
  return figure;
}

TEST(Summarise, TakesMedianAndQuartiles) {
  Figure figure;
  Summarise({5, 1, 3, 2, 4}, {10, 20, 30, 40, 500}, figure);
  EXPECT_EQ(figure.repeats, 5u);
  EXPECT_DOUBLE_EQ(figure.forward_s, 3);
  EXPECT_DOUBLE_EQ(figure.backward_s, 30);
  EXPECT_DOUBLE_EQ(figure.spread, 2.0 / 3);  // of both, the larger: (4 - 2) / 3, (40 - 20) / 30
}

TEST(CpuProbe, MeasuresEveryKindThatOneProcessCan) {
  PrepareTorch();
  const auto probe = MakeCpuProbe(testing::TempDir());
  EXPECT_FALSE(probe->Machine().empty());
  for (size_t kind = 0; kind < planner::kFigureKinds; ++kind) {
    const Figure what = Of(FigureKind(kind));
    const auto figure = probe->Measure(what, Duration::zero());
    if (what.kind == FigureKind::kAllReduce || what.kind == FigureKind::kRuntime) {
      EXPECT_EQ(figure.status().code(), Code::kInvalidArgument);
      continue;
    }
    ASSERT_TRUE(figure.ok()) << FigureName(what.kind) << ": " << figure.status();
    EXPECT_EQ(figure->sizes, what.sizes);
    EXPECT_GE(figure->repeats, 3u) << FigureName(what.kind);
    EXPECT_GT(figure->forward_s, 0) << FigureName(what.kind);
    EXPECT_EQ(figure->backward_s > 0, HasBackward(what.kind)) << FigureName(what.kind);
  }
}

TEST(CpuProbe, SaysWhereItCannotWrite) {
  const auto probe = MakeCpuProbe("/no/such/folder");
  EXPECT_THAT(probe->Measure(Of(FigureKind::kStorage), Duration::zero()).status().message(),
              testing::HasSubstr("/no/such/folder"));
}

TEST(WorkerPool, MeasuresInSeveralProcessesAtOnce) {
  PrepareTorch();
  const auto pool = WorkerPool::Start(2, testing::TempDir());
  ASSERT_TRUE(pool.ok()) << pool.status();
  for (const FigureKind kind : {FigureKind::kMatmul, FigureKind::kNorm}) {
    const auto figure = (*pool)->Measure(Of(kind), Duration::zero());
    ASSERT_TRUE(figure.ok()) << figure.status();
    EXPECT_GT(figure->forward_s, 0);
  }
  EXPECT_EQ((*pool)->Measure(Of(FigureKind::kAllReduce), Duration::zero()).status().code(),
            Code::kUnavailable);
}

TEST(MeasureAllReduce, TimesEachSize) {
  Figure figure = Of(FigureKind::kAllReduce);
  figure.sizes = {2, 4096, 0};
  const auto figures = MeasureAllReduce({figure, figure}, Duration::zero());
  ASSERT_TRUE(figures.ok()) << figures.status();
  ASSERT_EQ(figures->size(), 2u);
  EXPECT_GT((*figures)[1].forward_s, 0);
}

TEST(TensorPool, GivesATensorTheBlockThatOneOfItsSizeLeft) {
  InstallTensorPool();
  const auto page_of = [](const at::Tensor& tensor) {
    return reinterpret_cast<uintptr_t>(tensor.data_ptr()) / 4096;
  };
  at::Tensor first = at::zeros({100'000});
  const uintptr_t page = page_of(first);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data_ptr()) % 64, 0u);
  first.reset();
  const at::Tensor other = at::zeros({200'000});
  const at::Tensor second = at::zeros({100'000});
  EXPECT_EQ(page_of(second), page);
  EXPECT_NE(page_of(other), page);
}

TEST(SlowCore, NamesTheLibraryThatMultiplies) {
  const Status mkl = SlowCore(FlopsPerSecond(6e9), true);
  EXPECT_EQ(mkl.code(), Code::kFailedPrecondition);
  EXPECT_THAT(mkl.message(), testing::HasSubstr("MKL is slow on this processor"));
  EXPECT_THAT(mkl.message(), testing::Not(testing::HasSubstr("libopenblas0-pthread")));
  EXPECT_THAT(SlowCore(FlopsPerSecond(6e9), false).message(),
              testing::HasSubstr("Install libopenblas0-pthread"));
}

TEST(TensorPool, KeepsNothingOnceTrimmed) {
  InstallTensorPool();
  const auto resident = [] {
    // Pages of this process now, not at most.
    std::ifstream file("/proc/self/statm");
    int64_t size = 0;
    int64_t pages = 0;
    file >> size >> pages;
    return pages * 4096;
  };
  const int64_t before = resident();
  at::Tensor tensor = at::ones({25'000'000});
  EXPECT_GT(resident(), before + 90'000'000);
  tensor.reset();
  EXPECT_GT(resident(), before + 90'000'000);
  TrimTensorPool();
  EXPECT_LT(resident(), before + 20'000'000);
  EXPECT_GT(PeakProcessMemory().count(), before + 90'000'000);
}

}  // namespace
}  // namespace longhaul::trainer
