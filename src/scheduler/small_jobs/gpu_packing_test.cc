#include "scheduler/small_jobs/gpu_packing.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace longhaul::scheduler {
namespace {

TEST(ValueGpus, IsZeroWithoutFractions) { EXPECT_EQ(ValueGpus({})[kWholeGpu], 0); }

TEST(ValueGpus, OfOneShareCountsHowOftenItFits) {
  const GpuValues values = ValueGpus({{300, 7}});
  EXPECT_EQ(values[299], 0);
  EXPECT_NEAR(values[300], kGpuValue / 3, 1);
  EXPECT_NEAR(values[899], kGpuValue * 2 / 3, 1);
  EXPECT_EQ(values[kWholeGpu], kGpuValue);
}

// 700 and 300 fill a GPU together. With equal numbers the two cost one GPU a pair; with more of
// 300 than pairs need, these cost a third each and 700 costs the rest.
TEST(ValueGpus, PricesWhatIsLeftOver) {
  const GpuValues few = ValueGpus({{700, 10}, {300, 5}});
  EXPECT_NEAR(few[700], kGpuValue, 1);  // each 700 takes a GPU; 300 rides for nothing
  EXPECT_NEAR(few[300], 0, 1);
  const GpuValues many = ValueGpus({{700, 10}, {300, 40}});
  EXPECT_NEAR(many[300], kGpuValue / 3, 1);
  EXPECT_NEAR(many[700], kGpuValue * 2 / 3, 1);
}

// Half a GPU is worth half: putting 470 beside 470 gives nothing away, putting 320 there does.
TEST(ValueGpus, TellsAGoodPairFromASpoiltOne) {
  const GpuValues values = ValueGpus({{810, 345}, {470, 290}, {320, 113}, {650, 81}});
  const auto loss = [&](int free, int share) {
    return values[static_cast<size_t>(free)] - values[static_cast<size_t>(free - share)];
  };
  EXPECT_LT(loss(1'000, 470), loss(1'000, 810));
  EXPECT_NEAR(loss(530, 470), loss(1'000, 470), 2);
  EXPECT_GT(loss(530, 320), loss(1'000, 320));
}

// GPUs cut up without waste need as many GPUs again, so an optimal price list values all pieces
// at exactly that; a list that is no optimum values them at less.
TEST(ValueGpus, AreOptimalForPiecesThatFillTheirGpus) {
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    Random random(seed);
    std::array<int64_t, kWholeGpu> pieces{};
    constexpr int64_t kGpus = 30;
    for (int64_t gpu = 0; gpu < kGpus; ++gpu) {
      for (int left = kWholeGpu; left > 0;) {
        const int most = std::min(left, 990);
        const int piece = left < 100 ? left
                                     : 50 + 10 * static_cast<int>(random.Below(
                                                     static_cast<uint64_t>(most - 50) / 10 + 1));
        ++pieces[static_cast<size_t>(piece)];
        left -= piece;
      }
    }
    std::vector<ShareWeight> shares;
    for (int32_t share = 1; share < kWholeGpu; ++share) {
      const int64_t count = pieces[static_cast<size_t>(share)];
      if (count > 0) shares.push_back({share, count});
    }
    if (shares.size() > kMaxPackedShares) continue;
    const GpuValues values = ValueGpus(shares);
    int64_t sum = 0;
    for (const ShareWeight& share : shares) {
      sum += share.weight * values[static_cast<size_t>(share.share)];
    }
    ASSERT_NEAR(static_cast<double>(sum), static_cast<double>(kGpus) * kGpuValue, 300.0)
        << "seed " << seed;
  }
}

TEST(ValueGpus, AreMonotoneAndNeverSellAGpuTwice) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<ShareWeight> shares;
    std::array<bool, kWholeGpu> used{};
    const auto kinds = 1 + random.Below(80);
    for (uint64_t i = 0; i < kinds; ++i) {
      const auto share = 1 + random.Below(999);
      if (used[share]) continue;
      used[share] = true;
      shares.push_back({static_cast<int32_t>(share), 1 + static_cast<int64_t>(random.Below(500))});
    }
    const GpuValues values = ValueGpus(shares);
    ASSERT_EQ(values[0], 0);
    ASSERT_EQ(values[kWholeGpu], kGpuValue);
    for (size_t v = 1; v <= kWholeGpu; ++v) ASSERT_GE(values[v], values[v - 1]);
    // Two parts of a GPU are never worth more than the GPU.
    for (size_t v = 0; v <= kWholeGpu; ++v) {
      ASSERT_LE(values[v] + values[kWholeGpu - v], kGpuValue + 2);
    }
    ASSERT_EQ(values, ValueGpus(shares));
  }
}

}  // namespace
}  // namespace longhaul::scheduler
