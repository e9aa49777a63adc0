#include "base/random.h"

#include <gtest/gtest.h>

#include <array>

#include "base/hash.h"

namespace longhaul {
namespace {

// The authors' reference code (prng.di.unimi.it/splitmix64.c) prints these for the seed 1234567.
TEST(SplitMix64, AgreesWithTheReference) {
  uint64_t state = 1'234'567;
  for (const uint64_t want : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                              4593380528125082431u, 16408922859458223821u}) {
    EXPECT_EQ(SplitMix64(state), want);
  }
}

// The same authors' xoshiro256starstar.c, its four words from splitmix64.c with the seed 0.
TEST(Random, AgreesWithTheReference) {
  Random random(0);
  for (const uint64_t want :
       {11091344671253066420u, 13793997310169335082u, 1900383378846508768u, 7684712102626143532u}) {
    EXPECT_EQ(random.Next(), want);
  }
}

TEST(Random, IsDecidedByItsSeed) {
  Random first(5);
  Random second(5);
  Random other(6);
  int same = 0;
  for (int i = 0; i < 100; ++i) {
    const uint64_t number = first.Next();
    EXPECT_EQ(number, second.Next());
    same += number == other.Next() ? 1 : 0;
  }
  EXPECT_EQ(same, 0);
}

TEST(Random, BelowReachesEveryNumberAboutEquallyOften) {
  Random random(9);
  std::array<int, 7> hits{};
  for (int i = 0; i < 70'000; ++i) ++hits.at(random.Below(7));
  for (const int count : hits) EXPECT_NEAR(count, 10'000, 500);  // five standard deviations
}

TEST(Random, BelowOneIsZero) {
  Random random(1);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(random.Below(1), 0u);
}

TEST(Random, UniformStaysBelowOneAndHasTheRightMean) {
  Random random(2);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double value = random.Uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.005);
}

TEST(Random, ExponentialIsFiniteAndHasTheRightMean) {
  Random random(4);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double value = random.Exponential(3);
    ASSERT_GE(value, 0.0);
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
  }
  EXPECT_NEAR(sum / 100'000, 3.0, 0.06);
}

TEST(RandomDeathTest, BelowNeedsABound) { EXPECT_DEATH(Random(1).Below(0), "bound >= 1"); }

// XXH3's published value for the empty input: checksums in files stay readable.
TEST(Hash64, AgreesWithTheReference) {
  EXPECT_EQ(Hash64(std::string_view()), 0x2D06800538D394C2u);
  EXPECT_NE(Hash64("a"), Hash64("b"));
  EXPECT_NE(Hash64("a"), Hash64(std::string_view("a"), 1));
}

}  // namespace
}  // namespace longhaul
