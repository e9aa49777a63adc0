#include "training/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace longhaul::training::exact_sum_test {
namespace {

at::Tensor Noise(uint64_t seed) {
  Random random(seed);
  at::Tensor values = at::empty({8});
  for (int64_t i = 0; i < 8; ++i) values[i] = random.Uniform() * 2 - 1;
  return values;
}

at::Tensor SumOf(const std::vector<uint64_t>& order) {
  SumTree tree;
  for (const uint64_t index : order) tree.Add(index, Noise(index));
  return tree.Take();
}

TEST(SumTree, TheOrderOfArrivalDoesNotMatter) {
  for (const uint64_t count : {1u, 2u, 3u, 5u, 8u, 11u}) {
    std::vector<uint64_t> order(count);
    for (uint64_t i = 0; i < count; ++i) order[i] = i;
    const at::Tensor expected = SumOf(order);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Random random(seed);
      for (size_t i = count - 1; i > 0; --i) std::swap(order[i], order[random.Below(i + 1)]);
      EXPECT_TRUE(SumOf(order).equal(expected)) << count << " of seed " << seed;
    }
  }
}

// Ranks with 4 tensors each, then a tree over 3 ranks.
TEST(SumTree, GoesOnFromTheSumsOfRanges) {
  SumTree whole;
  SumTree ranks;
  for (uint64_t rank = 0; rank < 3; ++rank) {
    SumTree own;
    for (uint64_t i = 0; i < 4; ++i) {
      whole.Add(rank * 4 + i, Noise(rank * 4 + i));
      own.Add(i, Noise(rank * 4 + i));
    }
    ranks.Add(rank, own.Take());
  }
  EXPECT_TRUE(ranks.Take().equal(whole.Take()));
  EXPECT_FALSE(whole.Take().defined());
}

TEST(FixedSum, IsTheSameInAnyOrderAndOverRanks) {
  std::vector<double> numbers;
  Random random(5);
  for (int i = 0; i < 1'000; ++i) {
    numbers.push_back((random.Uniform() - 0.3) * std::exp2(static_cast<double>(random.Below(30))));
  }
  FixedSum forward;
  for (const double number : numbers) forward.Add(number);
  FixedSum first;
  FixedSum second;
  for (size_t i = numbers.size(); i-- > 0;) (i % 3 == 0 ? first : second).Add(numbers[i]);
  const double value = FixedSum::Value(forward.Limbs());
  EXPECT_EQ(FixedSum::Value(first.Limbs() + second.Limbs()), value);
  double plain = 0;
  for (const double number : numbers) plain += number;
  EXPECT_NEAR(value / plain, 1, 1e-12);
}

TEST(FixedSum, NegativeSumsAndSmallNumbersAreRight) {
  FixedSum sum;
  sum.Add(-3.5);
  sum.Add(0x1p-70);
  EXPECT_EQ(FixedSum::Value(sum.Limbs()), -3.5 + 0x1p-70);
  FixedSum squares;
  squares.AddSquares(at::tensor({3.0F, -4.0F}));
  EXPECT_EQ(FixedSum::Value(squares.Limbs()), 25);
}

TEST(FixedSum, WhatIsNotFiniteShows) {
  for (const double number : {std::nan(""), HUGE_VAL, -0x1p41}) {
    FixedSum sum;
    sum.Add(1);
    sum.Add(number);
    EXPECT_TRUE(std::isnan(FixedSum::Value(sum.Limbs()))) << number;
  }
}

}  // namespace
}  // namespace longhaul::training::exact_sum_test
