// AdamW over flat f32 buffers (Loshchilov and Hutter, ICLR 2019), one pass.
//
//   g' = scale * g                          m = b1 m + (1 - b1) g'
//   w -= rate * decay * w                   v = b2 v + (1 - b2) g'^2
//   w -= rate * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon)
//
// Elementwise: any division of the buffers gives the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/job/job.h"
#include "trainer/model/parameters.h"

namespace longhaul::trainer {

struct AdamWStep {
  uint64_t step = 1;  // t
  double rate = 0;
  double decay = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double scale = 1;  // of the gradients: clipping
};

// Requires spans of one size and step >= 1.
void UpdateAdamW(const AdamWStep& step, std::span<float> weights, std::span<const float> gradients,
                 std::span<float> first_moments, std::span<float> second_moments);

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
