// Each optimizer against a scalar oracle in double, and the laws that hold between them.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/random.h"
#include "optimizer/adamw.h"
#include "optimizer/agd.h"
#include "optimizer/group_lasso.h"
#include "optimizer/lion.h"
#include "optimizer/sharpness.h"

namespace longhaul::optimizer::optimizer_test {
namespace {

constexpr size_t kCount = 1003;  // no multiple of a vector
constexpr int kSteps = 30;

std::vector<float> Noise(uint64_t seed, size_t count, double scale) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(scale * (2 * random.Uniform() - 1));
  return values;
}

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

std::vector<float> Gradients(int step, size_t count = kCount) {
  return Noise(1000 + static_cast<uint64_t>(step), count, 0.1);
}

Step StepOf(int number) {
  Step step;
  step.number = static_cast<uint64_t>(number);
  step.rate = 0.01 / number;
  step.decay = 0.1;
  step.scale = 0.5;
  return step;
}

// Weights and up to three states of an optimizer.
struct State {
  std::vector<float> weights = Noise(1, kCount, 1);
  std::vector<float> first = std::vector<float>(kCount);
  std::vector<float> second = std::vector<float>(kCount);
  std::vector<float> third = std::vector<float>(kCount);
};

// The same in double, for one element.
struct Scalar {
  double weight = 0, first = 0, second = 0, third = 0;
};

using Vectors = std::function<void(const Step&, size_t begin, size_t end, State&,
                                   const std::vector<float>& gradients)>;
using Oracle = std::function<void(const Step&, double gradient, Scalar&)>;

template <typename T>
auto Cut(std::vector<T>& values, size_t begin, size_t end) {
  return std::span<T>(values).subspan(begin, end - begin);
}
std::span<const float> Cut(const std::vector<float>& values, size_t begin, size_t end) {
  return std::span<const float>(values).subspan(begin, end - begin);
}

void ExpectOracle(const Vectors& vectors, const Oracle& oracle) {
  State state;
  std::vector<Scalar> scalars(kCount);
  for (size_t i = 0; i < kCount; ++i) scalars[i].weight = state.weights[i];
  for (int number = 1; number <= kSteps; ++number) {
    const std::vector<float> gradients = Gradients(number);
    vectors(StepOf(number), 0, kCount, state, gradients);
    for (size_t i = 0; i < kCount; ++i) oracle(StepOf(number), gradients[i], scalars[i]);
  }
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(state.weights[i], scalars[i].weight, 1e-6 * (1 + std::abs(scalars[i].weight))) << i;
  }
}

// A sharded optimizer cuts the buffer anywhere.
void ExpectSameBitsForAnyCut(const Vectors& vectors) {
  State whole, cut;
  for (int number = 1; number <= kSteps; ++number) {
    const std::vector<float> gradients = Gradients(number);
    vectors(StepOf(number), 0, kCount, whole, gradients);
    size_t begin = 0;
    for (size_t size = static_cast<size_t>(number); begin < kCount; size += 7) {
      const size_t end = std::min(begin + size, kCount);
      vectors(StepOf(number), begin, end, cut, gradients);
      begin = end;
    }
  }
  EXPECT_EQ(Bits(whole.weights), Bits(cut.weights));
  EXPECT_EQ(Bits(whole.first), Bits(cut.first));
  EXPECT_EQ(Bits(whole.second), Bits(cut.second));
}

void RunAdamW(const Step& step, size_t begin, size_t end, State& state,
              const std::vector<float>& gradients) {
  Update(AdamW{}, step, Cut(state.weights, begin, end), Cut(gradients, begin, end),
         Cut(state.first, begin, end), Cut(state.second, begin, end));
}

TEST(AdamW, AgreesWithTheFormula) {
  ExpectOracle(RunAdamW, [](const Step& step, double gradient, Scalar& s) {
    const AdamW adamw;
    const double g = gradient * step.scale;
    const auto t = static_cast<double>(step.number);
    s.first = adamw.beta1 * s.first + (1 - adamw.beta1) * g;
    s.second = adamw.beta2 * s.second + (1 - adamw.beta2) * g * g;
    s.weight *= 1 - step.rate * step.decay;
    s.weight -= step.rate * (s.first / (1 - std::pow(adamw.beta1, t))) /
                (std::sqrt(s.second / (1 - std::pow(adamw.beta2, t))) + adamw.epsilon);
  });
  ExpectSameBitsForAnyCut(RunAdamW);
}

void RunLion(const Step& step, size_t begin, size_t end, State& state,
             const std::vector<float>& gradients) {
  Update(Lion{}, step, Cut(state.weights, begin, end), Cut(gradients, begin, end),
         Cut(state.first, begin, end));
}

TEST(Lion, AgreesWithTheFormula) {
  ExpectOracle(RunLion, [](const Step& step, double gradient, Scalar& s) {
    const Lion lion;
    const double g = gradient * step.scale;
    const double direction = lion.beta1 * s.first + (1 - lion.beta1) * g;
    s.weight *= 1 - step.rate * step.decay;
    s.weight -= step.rate * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
    s.first = lion.beta2 * s.first + (1 - lion.beta2) * g;
  });
  ExpectSameBitsForAnyCut(RunLion);
}

TEST(Lion, WithoutADirectionAWeightOnlyDecays) {
  std::vector<float> weights = {2.0F}, momentum = {0.0F};
  Update(Lion{}, StepOf(1), weights, std::vector<float>{0.0F}, momentum);
  EXPECT_FLOAT_EQ(weights[0], 2.0F * (1 - 0.01F * 0.1F));
}

void RunAgd(const Step& step, size_t begin, size_t end, State& state,
            const std::vector<float>& gradients) {
  Update(Agd{}, step, Cut(state.weights, begin, end), Cut(gradients, begin, end),
         Cut(state.first, begin, end), Cut(state.second, begin, end));
}

TEST(Agd, AgreesWithTheFormula) {
  ExpectOracle(RunAgd, [](const Step& step, double gradient, Scalar& s) {
    const Agd agd;
    const double g = gradient * step.scale;
    const auto t = static_cast<double>(step.number);
    const double before = s.first;
    s.first = agd.beta1 * s.first + (1 - agd.beta1) * g;
    double difference = s.first / (1 - std::pow(agd.beta1, t));
    if (step.number > 1) difference -= before / (1 - std::pow(agd.beta1, t - 1));
    s.second = agd.beta2 * s.second + (1 - agd.beta2) * difference * difference;
    const double correction = std::sqrt(1 - std::pow(agd.beta2, t));
    s.weight *= 1 - step.rate * step.decay;
    s.weight -= step.rate * correction / (1 - std::pow(agd.beta1, t)) * s.first /
                std::max(std::sqrt(s.second), agd.delta * correction);
  });
  ExpectSameBitsForAnyCut(RunAgd);
}

// With a constant gradient no difference remains: the floor makes it momentum SGD.
TEST(Agd, BelowItsFloorItIsMomentumSgd) {
  Agd agd;
  agd.delta = 1e3;
  std::vector<float> weights = {1.0F}, first = {0.0F}, second = {0.0F};
  Step step;
  step.rate = 0.5;
  for (step.number = 1; step.number <= 5; ++step.number) {
    const float before = weights[0];
    Update(agd, step, weights, std::vector<float>{0.25F}, first, second);
    EXPECT_NEAR(before - weights[0], step.rate / agd.delta * 0.25, 1e-7);
  }
}

// ------------------------------------------------------------------------------- group lasso

constexpr size_t kColumns = 17;
constexpr size_t kRows = 59;
static_assert(kRows * kColumns == kCount);

TEST(GroupAdam, WithoutPenaltiesIsAdam) {
  State state;
  std::vector<Scalar> scalars(kCount);
  for (size_t i = 0; i < kCount; ++i) scalars[i].weight = state.weights[i];
  const GroupAdam adam;
  for (int number = 1; number <= kSteps; ++number) {
    const Step step = StepOf(number);
    const std::vector<float> gradients = Gradients(number);
    EXPECT_EQ(Update(adam, step, kColumns, state.weights, gradients, state.first, state.second,
                     state.third),
              0u);
    const auto t = static_cast<double>(number);
    const double rate =
        step.rate * std::sqrt(1 - std::pow(adam.beta2, t)) / (1 - std::pow(adam.beta1, t));
    for (size_t i = 0; i < kCount; ++i) {
      const double g = gradients[i] * step.scale;
      Scalar& s = scalars[i];
      s.first = adam.beta1 * s.first + (1 - adam.beta1) * g;
      s.second = adam.beta2 * s.second + (1 - adam.beta2) * g * g;
      s.weight -= rate * s.first / (std::sqrt(s.second) + adam.epsilon);
    }
  }
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(state.weights[i], scalars[i].weight, 1e-5 * (1 + std::abs(scalars[i].weight))) << i;
  }
}

TEST(GroupAdam, AgreesWithTheFormulaWithPenalties) {
  GroupAdam adam;
  adam.penalties = {0.01, 0.02, 0.03};
  State state;
  std::vector<Scalar> scalars(kCount);
  for (size_t i = 0; i < kCount; ++i) scalars[i].weight = state.weights[i];
  for (int number = 1; number <= kSteps; ++number) {
    Step step = StepOf(number);
    step.rate = 0.01;
    const std::vector<float> gradients = Gradients(number);
    Update(adam, step, kColumns, state.weights, gradients, state.first, state.second, state.third);
    const auto t = static_cast<double>(number);
    const double rate =
        step.rate * std::sqrt(1 - std::pow(adam.beta2, t)) / (1 - std::pow(adam.beta1, t));
    const double l1 = 0.01 * step.rate, l2 = 0.02 * step.rate;
    const double l21 = 0.03 * step.rate * std::sqrt(static_cast<double>(kColumns));
    for (size_t row = 0; row < kRows; ++row) {
      double squares = 0;
      for (size_t i = row * kColumns; i < (row + 1) * kColumns; ++i) {
        Scalar& s = scalars[i];
        const double g = gradients[i] * step.scale;
        s.first = adam.beta1 * s.first + (1 - adam.beta1) * g;
        const double before = s.second;
        s.second = adam.beta2 * s.second + (1 - adam.beta2) * g * g;
        s.third +=
            rate * s.first -
            (std::sqrt(s.second) - std::sqrt(before) + (number == 1 ? adam.epsilon : 0)) * s.weight;
        const double shrunk = std::clamp(s.third, -l1, l1) - s.third;
        squares += shrunk * shrunk;
      }
      const double length = std::sqrt(squares);
      for (size_t i = row * kColumns; i < (row + 1) * kColumns; ++i) {
        Scalar& s = scalars[i];
        const double shrunk = std::clamp(s.third, -l1, l1) - s.third;
        s.weight = length > l21
                       ? (1 - l21 / length) * shrunk / (std::sqrt(s.second) + adam.epsilon + 2 * l2)
                       : 0;
      }
    }
  }
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(state.weights[i], scalars[i].weight, 1e-5 * (1 + std::abs(scalars[i].weight))) << i;
  }
}

TEST(GroupAdaGrad, WithoutPenaltiesIsAdaGrad) {
  State state;
  std::vector<Scalar> scalars(kCount);
  for (size_t i = 0; i < kCount; ++i) scalars[i] = {state.weights[i], 0.1, 0, 0};
  const GroupAdaGrad adagrad;
  Step step;
  step.rate = 0.05;
  Begin(adagrad, step.rate, state.weights, state.first, state.second);
  for (int number = 1; number <= kSteps; ++number) {
    const std::vector<float> gradients = Gradients(number);
    Update(adagrad, step, kColumns, state.weights, gradients, state.first, state.second);
    for (size_t i = 0; i < kCount; ++i) {
      const double g = gradients[i];
      scalars[i].first += g * g;
      scalars[i].weight -= step.rate * g / std::sqrt(scalars[i].first);
    }
  }
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(state.weights[i], scalars[i].weight, 1e-5 * (1 + std::abs(scalars[i].weight))) << i;
  }
}

// One step of group AdaGrad (group FTRL) on one row: `first` is n and `third` is z.
void StepOfGroupAdaGrad(const GroupAdaGrad& adagrad, const Step& step, std::span<Scalar> row,
                        std::span<const float> gradients) {
  double squares = 0;
  const auto shrunk = [&](const Scalar& s) {
    return std::clamp(s.third, -adagrad.penalties.l1, adagrad.penalties.l1) - s.third;
  };
  for (size_t i = 0; i < row.size(); ++i) {
    Scalar& s = row[i];
    const double g = gradients[i] * step.scale, before = std::pow(s.first, adagrad.power);
    s.first += g * g;
    s.third += g - (std::pow(s.first, adagrad.power) - before) / step.rate * s.weight;
    squares += shrunk(s) * shrunk(s);
  }
  const double length = std::sqrt(squares);
  const double l21 = adagrad.penalties.l21 * std::sqrt(static_cast<double>(row.size()));
  for (Scalar& s : row) {
    const double root = std::pow(s.first, adagrad.power) / step.rate + 2 * adagrad.penalties.l2;
    s.weight = length > l21 ? (1 - l21 / length) * shrunk(s) / root : 0;
  }
}

TEST(GroupAdaGrad, AgreesWithTheFormulaForEachPower) {
  for (const double power : {0.5, 0.3, 0.75, 1.0}) {
    GroupAdaGrad adagrad;
    adagrad.power = power;
    adagrad.penalties = {0.02, 0.03, 0.4};
    Step step;
    step.rate = 0.05;
    step.scale = 0.5;
    State state;
    std::vector<Scalar> scalars(kCount);
    Begin(adagrad, step.rate, state.weights, state.first, state.second);
    for (size_t i = 0; i < kCount; ++i) {
      const double weight = state.weights[i];
      scalars[i] = {weight, 0.1, 0, -std::pow(0.1, power) / step.rate * weight};
    }
    size_t dropped = 0;
    for (int number = 1; number <= kSteps; ++number) {
      const std::vector<float> gradients = Gradients(number);
      dropped =
          Update(adagrad, step, kColumns, state.weights, gradients, state.first, state.second);
      for (size_t row = 0; row < kRows; ++row) {
        StepOfGroupAdaGrad(adagrad, step, std::span(scalars).subspan(row * kColumns, kColumns),
                           Cut(gradients, row * kColumns, (row + 1) * kColumns));
      }
    }
    EXPECT_LT(dropped, kRows) << power;
    for (size_t i = 0; i < kCount; ++i) {
      ASSERT_NEAR(state.weights[i], scalars[i].weight, 1e-5 * (1 + std::abs(scalars[i].weight)))
          << power << " " << i;
    }
  }
}

// The squares of such numbers are 0 in float.
TEST(GroupLasso, WithoutPenaltiesRowsOfTinyWeightsAreNotDropped) {
  std::vector<float> weights(40, 1e-25F), sum(40), offset(40);
  const GroupAdaGrad adagrad;
  Step step;
  step.rate = 0.05;
  Begin(adagrad, step.rate, weights, sum, offset);
  EXPECT_EQ(Update(adagrad, step, 20, weights, std::vector<float>(40), sum, offset), 0u);
  for (const float weight : weights) EXPECT_FLOAT_EQ(weight, 1e-25F);
}

// Rows that get no gradient shrink until they are dropped as a whole; the others stay.
TEST(GroupAdam, DropsRowsWithoutASignalAndKeepsTheOthers) {
  GroupAdam adam;
  adam.penalties.l21 = 0.02;
  State state;
  for (size_t i = 0; i < kCount; ++i) state.weights[i] *= 0.01F;
  size_t dropped = 0;
  for (int number = 1; number <= 400; ++number) {
    Step step;
    step.number = static_cast<uint64_t>(number);
    step.rate = 1e-3;
    const std::vector<float> noise = Gradients(number);
    std::vector<float> gradients(kCount);
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t i = row * kColumns; i < (row + 1) * kColumns; ++i) {
        // Even rows have the optimum 1, odd rows see noise.
        gradients[i] = row % 2 == 0 ? state.weights[i] - 1 : noise[i] * 0.01F;
      }
    }
    dropped = Update(adam, step, kColumns, state.weights, gradients, state.first, state.second,
                     state.third);
  }
  EXPECT_EQ(dropped, kRows / 2);
  for (size_t row = 0; row < kRows; ++row) {
    const auto values = Cut(state.weights, row * kColumns, (row + 1) * kColumns);
    const auto zeros = static_cast<size_t>(std::count(values.begin(), values.end(), 0.0F));
    EXPECT_EQ(zeros, row % 2 == 0 ? 0 : kColumns) << row;
  }
}

TEST(GroupLasso, AnyCutBetweenRowsGivesTheSameBits) {
  GroupAdam adam;
  adam.penalties = {0.001, 0.002, 0.003};
  State whole, cut;
  for (int number = 1; number <= kSteps; ++number) {
    const std::vector<float> gradients = Gradients(number);
    const size_t at = static_cast<size_t>(number) % kRows * kColumns;
    Update(adam, StepOf(number), kColumns, whole.weights, gradients, whole.first, whole.second,
           whole.third);
    for (const auto& [begin, end] : {std::pair(size_t{0}, at), std::pair(at, kCount)}) {
      Update(adam, StepOf(number), kColumns, Cut(cut.weights, begin, end),
             Cut(gradients, begin, end), Cut(cut.first, begin, end), Cut(cut.second, begin, end),
             Cut(cut.third, begin, end));
    }
  }
  EXPECT_EQ(Bits(whole.weights), Bits(cut.weights));
  EXPECT_EQ(Bits(whole.third), Bits(cut.third));
}

// Rows are worked on in chunks of about 1,024 elements.
TEST(GroupLasso, LongRowsAreDividedWithTheSameBits) {
  GroupAdaGrad adagrad;
  adagrad.penalties = {0.001, 0.002, 0.003};
  Step step;
  step.rate = 0.05;
  for (const size_t columns : {size_t{1}, size_t{16}, size_t{300}, size_t{2000}}) {
    const size_t rows = 7000 / columns, count = rows * columns;
    const std::vector<float> gradients = Gradients(1, count);
    std::vector<float> weights = Noise(2, count, 1), sum(count), offset(count);
    Begin(adagrad, step.rate, weights, sum, offset);
    std::vector<float> cut = weights, cut_sum = sum, cut_offset = offset;
    const size_t all = Update(adagrad, step, columns, weights, gradients, sum, offset);
    size_t parts = 0;
    for (size_t begin = 0; begin < count; begin += columns) {
      const size_t end = begin + columns;
      parts += Update(adagrad, step, columns, Cut(cut, begin, end), Cut(gradients, begin, end),
                      Cut(cut_sum, begin, end), Cut(cut_offset, begin, end));
    }
    EXPECT_EQ(all, parts) << columns;
    EXPECT_EQ(Bits(weights), Bits(cut)) << columns;
    EXPECT_EQ(Bits(offset), Bits(cut_offset)) << columns;
  }
}

// ------------------------------------------------------------------------------- sharpness

TEST(Sharpness, HalfIsSamAndZeroIsTheOptimizerAlone) {
  const std::vector<float> moved = Gradients(2);
  std::vector<float> gradients = Gradients(1);
  Mix({.gamma = 0.5}, gradients, moved);
  EXPECT_EQ(gradients, moved);
  gradients = Gradients(1);
  Mix({.gamma = 0}, gradients, moved);
  EXPECT_EQ(gradients, Gradients(1));
}

TEST(Sharpness, TheMixWeighsTheMovedGradientByTheOddsOfGamma) {
  std::vector<float> gradients = {1};
  Mix({.gamma = 0.75}, gradients, std::vector<float>{2});
  EXPECT_FLOAT_EQ(gradients[0], 3 * 2 - 2 * 1);
}

TEST(Sharpness, MovesByTheRadiusAlongTheGradient) {
  const std::vector<float> weights = Noise(1, kCount, 1), gradients = Gradients(1);
  double squares = 0;
  for (const float g : gradients) squares += static_cast<double>(g) * g;
  std::vector<float> moved(kCount);
  Perturb({.radius = 0.05}, std::sqrt(squares), weights, gradients, moved);
  double length = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double by = static_cast<double>(moved[i]) - weights[i];
    EXPECT_NEAR(by, 0.05 * gradients[i] / std::sqrt(squares), 1e-7);
    length += by * by;
  }
  EXPECT_NEAR(std::sqrt(length), 0.05, 1e-6);
}

// Of plain SGD the decoupled form with a rate is the mixed form: both subtract
// rate * (weight h + (1 - weight) g).
TEST(Sharpness, DecoupledOfSgdIsTheMix) {
  const Sharpness sharpness{.gamma = 0.8};
  const std::vector<float> g = Gradients(1), h = Gradients(2);
  std::vector<float> decoupled = Noise(1, kCount, 1), mixed = decoupled, mix = g;
  for (size_t i = 0; i < kCount; ++i) decoupled[i] -= 0.01F * g[i];
  Correct(sharpness, 0.01, decoupled, g, h);
  Mix(sharpness, mix, h);
  for (size_t i = 0; i < kCount; ++i) mixed[i] -= 0.01F * mix[i];
  for (size_t i = 0; i < kCount; ++i) ASSERT_NEAR(decoupled[i], mixed[i], 1e-6) << i;
}

}  // namespace
}  // namespace longhaul::optimizer::optimizer_test
