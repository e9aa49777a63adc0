// The learning rate of a step: linear warm-up, then half a cosine down to a share of the peak
// (Loshchilov and Hutter, ICLR 2017, without restarts).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "spec/job/job.h"

namespace longhaul::trainer {

// Steps count from 1; the peak is at step warmup_steps (or step 1 without a warm-up), the final
// rate at the last step and beyond. Requires step >= 1.
inline double LearningRate(const spec::TrainSpec& train, uint64_t step) {
  if (step < train.warmup_steps) {
    return train.learning_rate * static_cast<double>(step) /
           static_cast<double>(train.warmup_steps);
  }
  const uint64_t first = std::max<uint64_t>(train.warmup_steps, 1);
  const double done = train.steps <= first
                          ? 1
                          : static_cast<double>(std::min(step, train.steps) - first) /
                                static_cast<double>(train.steps - first);
  const double share = train.steps <= first ? 1 : 0.5 * (1 + std::cos(std::numbers::pi * done));
  const double low = train.final_learning_rate_ratio;
  return train.learning_rate * (low + (1 - low) * share);
}

}  // namespace longhaul::trainer
