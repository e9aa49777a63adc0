// The state of training: weights and the moments of AdamW (optimizer/adamw.h) as flat buffers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/job/job.h"
#include "trainer/model/parameters.h"

namespace longhaul::trainer {

// The sum of squares, in double and in a fixed order.
double SquaredNorm(std::span<const float> values);

// The state of training: weights and moments as flat buffers in the table's layout. A rank may hold
// a part of it: then the caller sums the norm.
class Optimizer {
 public:
  Optimizer(const ParameterTable& table, const spec::TrainSpec& train);

  // Clips by the global norm, which is `norm`, and updates. Requires
  // gradients.size() == weights().size().
  void Step(uint64_t step, std::span<const float> gradients, double norm);

  std::span<float> weights() { return weights_; }
  std::span<float> first_moments() { return first_moments_; }
  std::span<float> second_moments() { return second_moments_; }

 private:
  struct Range {
    size_t begin;
    size_t end;
    bool decayed;
  };

  const spec::TrainSpec train_;
  std::vector<Range> ranges_;
  std::vector<float> weights_;
  std::vector<float> first_moments_;
  std::vector<float> second_moments_;
};

}  // namespace longhaul::trainer
