#include "base/permutation.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/random.h"

namespace longhaul {
namespace {

void ExpectBijection(uint64_t size, uint64_t key) {
  const Permutation permutation(size, key);
  std::vector<bool> seen(size, false);
  for (uint64_t position = 0; position < size; ++position) {
    const uint64_t element = permutation.At(position);
    ASSERT_LT(element, size) << "size " << size << " key " << key;
    ASSERT_FALSE(seen[element]) << "size " << size << " key " << key << " position " << position;
    seen[element] = true;
  }
}

TEST(Permutation, IsABijectionForEverySizeUpTo300) {
  for (uint64_t size = 1; size <= 300; ++size) ExpectBijection(size, 7);
}

TEST(Permutation, IsABijectionAroundPowersOfTwo) {
  for (int bits = 9; bits <= 15; ++bits) {
    const uint64_t power = uint64_t{1} << bits;
    for (const uint64_t size : {power - 1, power, power + 1}) ExpectBijection(size, 11);
  }
}

TEST(Permutation, IsABijectionForRandomSizesAndKeys) {
  Random random(3);
  for (int i = 0; i < 50; ++i) {
    const uint64_t size = 1 + random.Below(5'000);
    ExpectBijection(size, random.Next());
  }
}

TEST(Permutation, StaysInRangeForTheLargestSizes) {
  for (const uint64_t size : {UINT64_MAX, (uint64_t{1} << 63) + 1, (uint64_t{1} << 62) + 1}) {
    const Permutation permutation(size, 5);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < 1'000; ++i) {
      EXPECT_LT(permutation.At(i), size);
      EXPECT_LT(permutation.At(size - 1 - i), size);
      EXPECT_TRUE(seen.insert(permutation.At(i)).second);
    }
  }
}

// The orders of recorded runs: a change here changes which sample a step sees, and so the weights
// of every run that is resumed.
TEST(Permutation, KeepsItsOrderFromVersionToVersion) {
  const Permutation permutation(10, 42);
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < 10; ++i) order.push_back(permutation.At(i));
  EXPECT_EQ(order, (std::vector<uint64_t>{2, 0, 3, 5, 1, 4, 9, 8, 6, 7}));
}

// Two independent orders of 4,096 agree at one position on average (Montmort's problem), and hardly
// ever at more than ten.
TEST(Permutation, NeighbouringKeysGiveUnrelatedOrders) {
  constexpr uint64_t kSize = 4'096;
  for (uint64_t key = 0; key < 32; ++key) {
    const Permutation first(kSize, key);
    for (const uint64_t distance : {1, 2, 3, 63}) {
      const Permutation second(kSize, key ^ distance);
      int same = 0;
      int mirrored = 0;  // what unmixed keys would show everywhere
      for (uint64_t i = 0; i < kSize; ++i) {
        same += first.At(i) == second.At(i) ? 1 : 0;
        const uint64_t mirror = distance * 64 + distance;  // the key's change in both halves
        mirrored += first.At(i ^ mirror) == (second.At(i) ^ mirror) ? 1 : 0;
      }
      EXPECT_LE(same, 10) << "keys " << key << " and " << (key ^ distance);
      EXPECT_LE(mirrored, 10) << "keys " << key << " and " << (key ^ distance);
    }
  }
}

// The mean distance between the elements at neighbouring positions is a third of the size.
TEST(Permutation, NeighboursAreFarApart) {
  constexpr uint64_t kSize = 10'000;
  const Permutation permutation(kSize, 1);
  double sum = 0;
  for (uint64_t i = 1; i < kSize; ++i) {
    const auto a = static_cast<double>(permutation.At(i - 1));
    const auto b = static_cast<double>(permutation.At(i));
    sum += a < b ? b - a : a - b;
  }
  EXPECT_NEAR(sum / (kSize - 1) / kSize, 1.0 / 3, 0.02);
}

TEST(PermutationDeathTest, RefusesAnEmptySizeAndAPositionPastTheEnd) {
  EXPECT_DEATH(Permutation(0, 1), "size >= 1");
  EXPECT_DEATH(Permutation(3, 1).At(3), "position < size_");
}

}  // namespace
}  // namespace longhaul
