#include "runtime/controller/job/numeric/loss_spikes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <string>

#include "base/random.h"

namespace longhaul::runtime::controller {
namespace {

constexpr uint64_t kSeeds = 40;
constexpr uint64_t kSteps = 1'000;

// Normally distributed noise (Box and Muller).
class Noise {
 public:
  explicit Noise(uint64_t seed) : random_(seed) {}
  double operator()() {
    const double radius = std::sqrt(-2 * std::log1p(-random_.Uniform()));
    return radius * std::cos(2 * std::numbers::pi * random_.Uniform());
  }

 private:
  Random random_;
};

struct Curve {
  const char* name;
  std::function<double(uint64_t step, Noise& noise)> loss;
};

double Decay(uint64_t step) { return 2 + 9 * std::exp(-static_cast<double>(step) / 150); }

const Curve kOrdinary[] = {
    {"a decay with 3 % of noise",
     [](uint64_t step, Noise& noise) { return Decay(step) * (1 + 0.03 * noise()); }},
    {"noise with a heavy tail",
     [](uint64_t step, Noise& noise) { return Decay(step) * std::exp(0.5 * noise()); }},
    {"single outliers of five times the loss",
     [](uint64_t step, Noise& noise) {
       return Decay(step) * (step % 37 == 0 ? 5 : 1) * (1 + 0.03 * noise());
     }},
    {"two sources of data in turn",
     [](uint64_t step, Noise& noise) {
       return (step / 50 % 2 == 0 ? 2.0 : 3.5) * (1 + 0.05 * noise());
     }},
    {"a loss that is almost constant",
     [](uint64_t, Noise& noise) { return 0.69314 + 1e-7 * noise(); }},
    {"a loss around zero", [](uint64_t, Noise& noise) { return 0.1 * noise(); }},
    {"a negative log likelihood that falls below zero",
     [](uint64_t step, Noise& noise) {
       return 3 - 0.01 * static_cast<double>(step) + 0.2 * noise();
     }},
};

TEST(LossSpikes, OrdinaryNoiseIsNoSpike) {
  for (const Curve& curve : kOrdinary) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      LossSpikes spikes;
      Noise noise(seed);
      for (uint64_t step = 1; step <= kSteps; ++step) {
        const double loss = curve.loss(step, noise);
        ASSERT_FALSE(spikes.Take(step, loss).has_value())
            << curve.name << ", seed " << seed << ", step " << step << ", loss " << loss;
      }
    }
  }
}

TEST(LossSpikes, ALossThatStaysThreeTimesAsHighIsFoundWithItsFirstStep) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    LossSpikes spikes;
    Noise noise(seed);
    const uint64_t begin = 500 + seed;
    int found = 0;
    for (uint64_t step = 1; step < begin + 50; ++step) {
      const double loss = Decay(step) * (step >= begin ? 3 : 1) * (1 + 0.03 * noise());
      const auto spike = spikes.Take(step, loss);
      if (!spike.has_value()) continue;
      ++found;
      EXPECT_EQ(spike->first_step, begin) << "seed " << seed;
      EXPECT_EQ(spike->last_step, begin + 2) << "seed " << seed;
      EXPECT_EQ(spike->loss, loss);
      EXPECT_LT(spike->limit, loss);
    }
    EXPECT_EQ(found, 1) << "once for each row, seed " << seed;
  }
}

TEST(LossSpikes, ALossThatDivergesIsFound) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    LossSpikes spikes;
    Noise noise(seed);
    uint64_t found = 0;
    for (uint64_t step = 1; step <= 400 && found == 0; ++step) {
      const double growth = step > 300 ? std::exp(static_cast<double>(step - 300) / 10) : 1;
      if (spikes.Take(step, Decay(step) * growth * (1 + 0.03 * noise()))) found = step;
    }
    EXPECT_GT(found, 300u) << "seed " << seed;
    EXPECT_LT(found, 330u) << "seed " << seed;
  }
}

TEST(LossSpikes, AfterARowTheNextOneIsFound) {
  LossSpikes spikes;
  std::string found;
  for (uint64_t step = 1; step <= 100; ++step) {
    const bool high = (step >= 50 && step < 55) || (step >= 70 && step < 75);
    if (spikes.Take(step, high ? 10 : 1)) found += std::to_string(step) + " ";
  }
  EXPECT_EQ(found, "52 72 ");
}

TEST(LossSpikes, ANewLevelCountsAsGoodInTheEnd) {
  LossSpikes spikes;
  int found = 0;
  for (uint64_t step = 1; step <= 300; ++step)
    found += spikes.Take(step, step < 50 ? 1 : 4) ? 1 : 0;
  EXPECT_EQ(found, 1);
  EXPECT_FALSE(spikes.Take(301, 20));
  EXPECT_FALSE(spikes.Take(302, 20));
  EXPECT_TRUE(spikes.Take(303, 20)) << "it is compared with the new level";
}

TEST(LossSpikes, StepsThatAreDoneAgainAreComparedWithTheSameLosses) {
  LossSpikes spikes;
  for (uint64_t step = 1; step < 50; ++step) EXPECT_FALSE(spikes.Take(step, 1));
  for (uint64_t step = 50; step < 53; ++step)
    EXPECT_EQ(spikes.Take(step, 9).has_value(), step == 52);
  spikes.Rewind(40);
  for (uint64_t step = 41; step < 50; ++step) EXPECT_FALSE(spikes.Take(step, 1));
  for (uint64_t step = 50; step < 53; ++step)
    EXPECT_EQ(spikes.Take(step, 9).has_value(), step == 52);
}

}  // namespace
}  // namespace longhaul::runtime::controller
