#include "profiler/report/roofline.h"

#include <gtest/gtest.h>

namespace longhaul::profiler {
namespace {

// One rank, two operators. The product of [1024 x 512] and [512 x 2048] is 2^31 = 2.147e9 FLOPs and
// 2 (1024 512 + 512 2048 + 1024 2048) = 7.34e6 bytes; the sum moves 2 (2 + 1) 2^20 = 6.29e6.
ProfiledJob OneRank() {
  ProfiledJob job;
  RankSummary& rank = job.ranks.emplace_back();
  rank.kernel_ns = 30'000;
  rank.operators = {
      {"aten::mm", "[[1024, 512], [512, 2048]]|[\"c10::Half\", \"c10::Half\"]", 1, 8'000,
       2147483648.0, 7340032.0},
      {"aten::add", "[[1048576], [1048576]]|[\"c10::Half\", \"c10::Half\"]", 2, 16'000, 0,
       2 * 6291456.0},
      {"aten::secret", "", 1, 6'000, 0, 0},
  };
  return job;
}

spec::Device Gpu() {
  spec::Device gpu;
  gpu.name = "gpu";
  gpu.half = FlopsPerSecond(1e15);
  gpu.fp32 = FlopsPerSecond(5e14);
  gpu.memory_bandwidth = BytesPerSecond(2e12);
  return gpu;
}

TEST(Roofline, HoldsEachOperatorAgainstItsOwnRoof) {
  const Roofline roofline = RooflineOf(OneRank(), Gpu());
  ASSERT_EQ(roofline.rows.size(), 2u);
  // The sum loses most: 12.6 MB at 2 TB/s are 6.29 of its 16 us.
  EXPECT_EQ(roofline.rows[0].name, "aten::add");
  EXPECT_FALSE(roofline.rows[0].by_compute);
  EXPECT_NEAR(roofline.rows[0].attainable_s * 1e6, 6.291, 1e-3);
  EXPECT_NEAR(roofline.rows[0].lost_s() * 1e6, 9.709, 1e-3);
  // The product: 2.147 us by its FLOPs, 3.67 by its bytes.
  EXPECT_FALSE(roofline.rows[1].by_compute);
  EXPECT_NEAR(roofline.rows[1].share(), 3.670 / 8, 1e-3);
  EXPECT_NEAR(roofline.share(), (6.291 + 3.670) / 24, 1e-3);
  EXPECT_NEAR(roofline.counted_s / roofline.kernel_s, 24.0 / 30, 1e-9);
}

TEST(Roofline, KnowsThePrecisionsPeak) {
  spec::Device gpu = Gpu();
  gpu.memory_bandwidth = BytesPerSecond(1e15);  // nothing waits for memory
  ProfiledJob job = OneRank();
  EXPECT_NEAR(RooflineOf(job, gpu).rows[1].attainable_s * 1e6, 2.147, 1e-3);
  job.ranks[0].operators[0].shapes = "[[1024, 512], [512, 2048]]|[\"float\", \"float\"]";
  EXPECT_NEAR(RooflineOf(job, gpu).rows[1].attainable_s * 1e6, 4.295, 1e-3);
}

TEST(Roofline, TakesTheFastestSeenWhereNoGpuIsKnown) {
  const Roofline roofline = RooflineOf(OneRank(), std::nullopt);
  EXPECT_EQ(roofline.roof, "the fastest operators seen");
  EXPECT_NEAR(roofline.flops_per_s, 2147483648.0 / 8e-6, 1);
  // The product has the best rates of both kinds: it attains what it does.
  EXPECT_NEAR(roofline.rows[1].share(), 1, 1e-9);
  EXPECT_EQ(RooflineOf(ProfiledJob(), std::nullopt).share(), 0);
}

}  // namespace
}  // namespace longhaul::profiler
