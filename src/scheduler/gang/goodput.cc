#include "scheduler/gang/goodput.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace longhaul::scheduler {

double IterationSeconds(const ThroughputModel& model, int32_t replicas, int32_t hosts,
                        double samples_a_replica, int32_t accumulation_steps) {
  CHECK(replicas >= 1 && hosts >= 1 && samples_a_replica > 0 && accumulation_steps >= 0);
  CHECK(model.overlap >= 1);
  const double compute = model.compute_constant + model.compute_slope * samples_a_replica;
  double synchronise = 0;
  if (replicas > 1 && hosts == 1) {
    synchronise = model.local_constant + model.local_slope * (replicas - 2);
  } else if (replicas > 1) {
    synchronise = model.network_constant + model.network_slope * (replicas - 2);
  }
  // The last of the accumulated steps overlaps computing with synchronisation. An exponent of 1
  // adds the two; a large one approaches the longer of them. The steps before it do not
  // synchronise.
  const double g = model.overlap;
  const double last = std::pow(std::pow(compute, g) + std::pow(synchronise, g), 1 / g);
  return accumulation_steps * compute + last;
}

double StatisticalEfficiency(double noise_scale, double initial_batch, double batch) {
  CHECK(noise_scale >= 0 && initial_batch > 0 && batch >= initial_batch);
  return (noise_scale + initial_batch) / (noise_scale + batch);
}

int64_t ElasticValue(ElasticAim aim, double speedup, bool restarts, double remaining_seconds,
                     double restart_seconds) {
  CHECK(speedup >= 0 && std::isfinite(speedup));
  constexpr double kMillionths = 1e6;
  constexpr double kLeast = 1e-6;  // keeps the inverse finite and within ElasticOption's limit
  double discount = 1;
  if (restarts && restart_seconds > 0) {
    discount =
        std::max(0.0, remaining_seconds) / (std::max(0.0, remaining_seconds) + restart_seconds);
  }
  const double worth = speedup * discount;
  if (aim == ElasticAim::kSum) return std::llround(std::min(worth, 1e6) * kMillionths);
  // Negative: the slowdown is to be small, while the allocation maximises the sum of values.
  return -std::llround(std::min(1 / std::max(worth, kLeast), 1e6) * kMillionths);
}

}  // namespace longhaul::scheduler
