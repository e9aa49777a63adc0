// AdamW with moments of 8 bits: its codes against a search, its steps against double and against
// AdamW in float, and what hostile numbers do.
#include "optimizer/adamw8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "optimizer/adamw.h"
#include "optimizer/dynamic_code.h"

namespace longhaul::optimizer::adamw8_test {
namespace {

constexpr size_t kBlock = AdamW8::kBlock;
constexpr size_t kCount = 3 * kBlock + 701;  // four blocks, the last one is short
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct State {
  explicit State(size_t count = kCount)
      : weights(count),
        codes1(count),
        codes2(count),
        scales1(BlocksOf(AdamW8{}, count)),
        scales2(scales1) {}

  void Step(const optimizer::Step& step, const std::vector<float>& gradients) {
    Update(AdamW8{}, step, weights, gradients, {codes1, scales1}, {codes2, scales2});
  }

  // Those of the blocks [begin, end).
  void StepPart(const optimizer::Step& step, std::span<const float> gradients, size_t begin,
                size_t end) {
    const size_t at = begin * kBlock, count = std::min(end * kBlock, weights.size()) - at;
    const auto part = [&](auto& values, size_t from, size_t size) {
      return std::span(values).subspan(from, size);
    };
    Update(AdamW8{}, step, part(weights, at, count), gradients.subspan(at, count),
           {part(codes1, at, count), part(scales1, begin, end - begin)},
           {part(codes2, at, count), part(scales2, begin, end - begin)});
  }

  bool operator==(const State&) const = default;

  std::vector<float> weights;
  std::vector<uint8_t> codes1, codes2;
  std::vector<float> scales1, scales2;
};

Step StepOf(int number) {
  Step step;
  step.number = static_cast<uint64_t>(number);
  step.rate = 0.01;
  step.decay = 0.1;
  step.scale = 0.5;
  return step;
}

// Gradients of a training: each weight has its own scale over some decades, a mean and noise.
std::vector<float> Gradients(int number, size_t count = kCount, double decades = 4) {
  Random sizes(1), noise(1000 + static_cast<uint64_t>(number));
  std::vector<float> gradients(count);
  for (float& g : gradients) {
    const double size = std::pow(10, -decades * sizes.Uniform());
    g = static_cast<float>(size * (sizes.Uniform() - 0.5 + 4 * (noise.Uniform() - 0.5)));
  }
  return gradients;
}

// The formula of dynamic_code.h for the value of a code, in double.
double Magnitude(int position, int first) {
  if (position < first) return 0;
  if (position == 128 * first) return 1;
  int decade = 0, parts = first;
  for (; position >= 2 * parts; ++decade) parts *= 2;
  return std::pow(10.0, decade - 6) * (0.1 + 0.9 * (position - parts + 0.5) / parts);
}

double SignedValue(int code) {
  return code < 127 ? -Magnitude(127 - code, 1) : Magnitude(code - 127, 1);
}
double UnsignedValue(int code) { return Magnitude(code + 1, 2); }

// The largest error of a number: half a part of its decade, which has `first` * 2^i parts. Below
// the lowest decade it is what the lowest one has.
double HalfPart(double number, int first) {
  double half = 0.45e-6 / first;
  for (double end = 1e-6; end < std::abs(number) * (1 + 1e-5); end *= 10) half *= 5;
  return std::max(half * (1 + 1e-5) + 1e-6 * std::abs(number), 0.45e-6);
}

TEST(DynamicCode, HasTheValuesOfThePaper) {
  EXPECT_FLOAT_EQ(DecodeSigned(0), -0.99296875F);  // 0.1 + 0.9 * 63.5 / 64
  EXPECT_EQ(DecodeSigned(127), 0.0F);
  EXPECT_EQ(DecodeSigned(255), 1.0F);
  EXPECT_EQ(DecodeUnsigned(0), 0.0F);
  EXPECT_EQ(DecodeUnsigned(255), 1.0F);
  for (int code = 0; code < 256; ++code) {
    const auto narrow = static_cast<uint8_t>(code);
    EXPECT_NEAR(DecodeSigned(narrow), SignedValue(code), 1e-6 * std::abs(SignedValue(code)));
    EXPECT_NEAR(DecodeUnsigned(narrow), UnsignedValue(code), 1e-6 * UnsignedValue(code));
  }
}

TEST(DynamicCode, EveryCodeRoundTripsAndTheValuesAscend) {
  for (int code = 0; code < 256; ++code) {
    const auto narrow = static_cast<uint8_t>(code);
    EXPECT_EQ(EncodeSigned(DecodeSigned(narrow)), code);
    EXPECT_EQ(EncodeUnsigned(DecodeUnsigned(narrow)), code);
    if (code == 0) continue;
    EXPECT_LT(DecodeSigned(static_cast<uint8_t>(code - 1)), DecodeSigned(narrow));
    EXPECT_LT(DecodeUnsigned(static_cast<uint8_t>(code - 1)), DecodeUnsigned(narrow));
  }
}

// Random numbers of all decades, and the floats around each power of ten.
TEST(DynamicCode, TheErrorIsAtMostHalfAPart) {
  std::vector<float> numbers;
  Random random(3);
  for (int i = 0; i < 20'000; ++i) {
    numbers.push_back(static_cast<float>(std::pow(10, -8 * random.Uniform())));
  }
  for (int power = -8; power <= 0; ++power) {
    auto number = static_cast<float>(std::pow(10, power));
    for (int i = 0; i < 5; ++i) number = std::nextafter(number, 0.0F);
    for (int i = 0; i < 10; ++i, number = std::nextafter(number, 2.0F)) {
      if (number <= 1) numbers.push_back(number);
    }
  }
  for (const float number : numbers) {
    for (const float value : {number, -number}) {
      // The negative numbers have no -1, but 1 - half a part of the highest decade.
      ASSERT_NEAR(SignedValue(EncodeSigned(value)), value, HalfPart(value, 1) + 1e-7) << value;
    }
    ASSERT_NEAR(UnsignedValue(EncodeUnsigned(number)), number, HalfPart(number, 2)) << number;
  }
}

TEST(DynamicCode, EncodingIsMonotone) {
  Random random(4);
  std::vector<float> numbers(20'000);
  for (float& number : numbers) number = static_cast<float>(std::pow(10, -8 * random.Uniform()));
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 1; i < numbers.size(); ++i) {
    ASSERT_LE(EncodeSigned(numbers[i - 1]), EncodeSigned(numbers[i])) << numbers[i];
    ASSERT_GE(EncodeSigned(-numbers[i - 1]), EncodeSigned(-numbers[i])) << numbers[i];
    ASSERT_LE(EncodeUnsigned(numbers[i - 1]), EncodeUnsigned(numbers[i])) << numbers[i];
  }
}

// One step from any state: the weights as in double, and codes with an error of half a part.
TEST(AdamW8, EachStepAgreesWithTheFormula) {
  State state;
  const AdamW8 adamw;
  for (int number = 1; number <= 20; ++number) {
    const State before = state;
    const Step step = StepOf(number);
    const std::vector<float> gradients = Gradients(number);
    state.Step(step, gradients);
    std::vector<double> first(kCount), second(kCount), most1(4), most2(4);
    for (size_t i = 0; i < kCount; ++i) {
      const double g = gradients[i] * step.scale;
      first[i] = adamw.beta1 * SignedValue(before.codes1[i]) * before.scales1[i / kBlock] +
                 (1 - adamw.beta1) * g;
      second[i] = adamw.beta2 * UnsignedValue(before.codes2[i]) * before.scales2[i / kBlock] +
                  (1 - adamw.beta2) * g * g;
      const double m = first[i] / (1 - std::pow(adamw.beta1, number));
      const double v = second[i] / (1 - std::pow(adamw.beta2, number));
      const double weight = before.weights[i] * (1 - step.rate * step.decay) -
                            step.rate * m / (std::sqrt(v) + adamw.epsilon);
      ASSERT_NEAR(state.weights[i], weight, 1e-6 * (1 + std::abs(weight)));
      most1[i / kBlock] = std::max(most1[i / kBlock], std::abs(first[i]));
      most2[i / kBlock] = std::max(most2[i / kBlock], second[i]);
    }
    for (size_t i = 0; i < kCount; ++i) {
      const double m = first[i] / most1[i / kBlock], v = second[i] / most2[i / kBlock];
      ASSERT_NEAR(state.scales1[i / kBlock], most1[i / kBlock], 1e-6 * most1[i / kBlock]);
      ASSERT_NEAR(state.scales2[i / kBlock], most2[i / kBlock], 1e-6 * most2[i / kBlock]);
      ASSERT_NEAR(SignedValue(state.codes1[i]), m, HalfPart(m, 1) + 1e-6);
      ASSERT_NEAR(UnsignedValue(state.codes2[i]), v, HalfPart(v, 2) + 1e-6);
    }
  }
}

// The relative distance between the weights of AdamW8 and of AdamW after 300 steps.
double RelativeError(double decades) {
  constexpr size_t kFew = kBlock + 100;
  State state(kFew);
  std::vector<float> weights(kFew), first(kFew), second(kFew);
  double squares = 0, errors = 0;
  for (int number = 1; number <= 300; ++number) {
    const std::vector<float> gradients = Gradients(number, kFew, decades);
    state.Step(StepOf(number), gradients);
    Update(AdamW{}, StepOf(number), weights, gradients, first, second);
  }
  for (size_t i = 0; i < kFew; ++i) {
    squares += static_cast<double>(weights[i]) * weights[i];
    errors += std::pow(static_cast<double>(state.weights[i]) - weights[i], 2);
  }
  return std::sqrt(errors / squares);
}

// The smallest v is 3e-7 of the block's largest one, which is the square of 6e-4: weights whose
// gradients are smaller than that part of the largest ones move less than they should.
TEST(AdamW8, StaysNearAdamWOverThreeHundredSteps) {
  const struct {
    double decades, bound;
  } kRows[] = {{0, 0.02}, {1, 0.03}, {2, 0.06}, {3, 0.15}, {4, 0.3}};
  for (const auto& row : kRows) {
    const double error = RelativeError(row.decades);
    RecordProperty("decades_" + std::to_string(static_cast<int>(row.decades)),
                   std::to_string(error));
    EXPECT_LT(error, row.bound) << row.decades << " decades of sizes of gradients in a block";
  }
}

TEST(AdamW8, AnyCutAtABorderOfBlocksGivesTheSameBits) {
  for (size_t border = 0; border <= 4; ++border) {
    State whole, cut;
    for (int number = 1; number <= 10; ++number) {
      const std::vector<float> gradients = Gradients(number);
      whole.Step(StepOf(number), gradients);
      cut.StepPart(StepOf(number), gradients, 0, border);
      cut.StepPart(StepOf(number), gradients, border, 4);
    }
    EXPECT_EQ(whole, cut) << border;
  }
}

TEST(AdamW8, AWeightTakesTwoBytesAndABlockTwoScales) {
  const State state(10 * kBlock);
  const size_t bytes = state.codes1.size() + state.codes2.size() +
                       sizeof(float) * (state.scales1.size() + state.scales2.size());
  EXPECT_EQ(bytes, 10 * (2 * kBlock + 8));
}

// The bits of the other blocks are those of a run without the hostile number.
TEST(AdamW8, ANumberThatIsNotFiniteStaysInItsBlock) {
  for (const float hostile : {kNan, kInfinity, -kInfinity, 1e30F}) {
    State clean, hit;
    for (int number = 1; number <= 3; ++number) {
      std::vector<float> gradients = Gradients(number);
      clean.Step(StepOf(number), gradients);
      if (number == 1) gradients[kBlock + 5] = hostile;
      hit.Step(StepOf(number), gradients);
      EXPECT_TRUE(std::isnan(hit.scales2[1])) << number;
    }
    for (size_t i = 0; i < kCount; ++i) {
      if (i / kBlock == 1) {
        EXPECT_TRUE(std::isnan(hit.weights[i])) << i;
      } else {
        ASSERT_EQ(hit.weights[i], clean.weights[i]) << i;
        ASSERT_EQ(hit.codes1[i], clean.codes1[i]) << i;
        ASSERT_EQ(hit.codes2[i], clean.codes2[i]) << i;
      }
    }
    EXPECT_EQ(hit.scales2[0], clean.scales2[0]);
  }
}

TEST(AdamW8, TheMomentsOfABlockCanBeRead) {
  State state(3);
  state.Step(StepOf(1), {0.5F, -0.25F, 0.0F});
  std::vector<float> first(3), second(3);
  DecodeSigned(state.codes1, state.scales1[0], first);
  DecodeUnsigned(state.codes2, state.scales2[0], second);
  // m is 0.1 g' and v is 0.05 g'^2, with g' = g / 2.
  EXPECT_FLOAT_EQ(first[0], 0.025F);
  EXPECT_NEAR(first[1], -0.0125, 0.025 * 0.45 / 64);
  EXPECT_EQ(first[2], 0.0F);
  EXPECT_FLOAT_EQ(second[0], 0.003125F);
  EXPECT_NEAR(second[1], 0.00078125, 0.003125 * 0.45 / 128);
  EXPECT_EQ(second[2], 0.0F);
}

TEST(AdamW8, ABlockWithoutGradientsOnlyDecays) {
  State state(5);
  state.weights.assign(5, 2.0F);
  state.Step(StepOf(1), std::vector<float>(5));
  for (const float weight : state.weights) EXPECT_FLOAT_EQ(weight, 2 * (1 - 0.001F));
  EXPECT_EQ(state.scales1[0], 0.0F);
  EXPECT_EQ(state.codes1[0], 127);
  EXPECT_EQ(state.codes2[0], 0);
}

// Their reciprocal would be infinite.
TEST(AdamW8, MomentsBelowTheSmallestNormalFloatBecomeZero) {
  State state(2);
  state.Step(StepOf(1), {1e-38F, 0.0F});
  EXPECT_EQ(state.scales1[0], 0.0F);
  EXPECT_EQ(state.scales2[0], 0.0F);
  state.Step(StepOf(2), {1.0F, 0.0F});
  EXPECT_TRUE(std::isfinite(state.weights[0]));
  EXPECT_EQ(state.weights[1], 0.0F);
}

// With v = 0 the second weight would move by rate * m / epsilon, which is 45 here.
TEST(AdamW8, AWeightWithSmallGradientsBesideALargeOneDoesNotMoveFar) {
  State state(2);
  for (int number = 1; number <= 20; ++number) {
    Step step = StepOf(number);
    step.decay = 0;
    state.Step(step, {1.0F, number < 10 ? 1e-4F : 0.0F});
    EXPECT_GT(state.codes2[1], 0);
  }
  EXPECT_LT(std::abs(state.weights[1]), 20 * 0.01F);
}

}  // namespace
}  // namespace longhaul::optimizer::adamw8_test
