// The sizes that `longhaul calibrate` measures, in their order.
//
// Each kind begins with a few sizes that span those of training; then matmuls and attention
// continue, one at a time, with the size at which interpolation is least certain: the largest
// standard deviation of a lattice of candidates, given all measurements so far (uncertainty
// sampling: MacKay, Neural Computation 1992). Deterministic except for the measurements. Leaves out
// the measuring itself.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/local/device_file.h"

namespace longhaul::planner {

// A size to measure; `figure` has no times yet.
struct Measurement {
  Figure figure;
  double budget_s = 0;  // of the clock
};

class MeasuringPlan {
 public:
  // `cores` processes measure at once; `quick`: about a fifth of the sizes.
  MeasuringPlan(uint32_t cores, bool quick);

  // The next size; nothing when all are measured. The caller adds its result with Add, or skips it.
  std::optional<Measurement> Next();
  void Add(const Figure& measured);

  size_t done() const { return done_; }
  size_t total() const;  // of the sizes that are measured separately
  const std::vector<Figure>& figures() const { return figures_; }

 private:
  std::optional<Figure> LeastSure(FigureKind kind) const;

  std::vector<Measurement> fixed_;
  size_t next_fixed_ = 0;
  std::vector<Figure> product_lattice_;
  std::vector<Figure> attention_lattice_;
  uint32_t products_left_ = 0;
  uint32_t attentions_left_ = 0;
  double budget_s_ = 0;
  size_t done_ = 0;
  std::vector<Figure> figures_;
};

}  // namespace longhaul::planner
