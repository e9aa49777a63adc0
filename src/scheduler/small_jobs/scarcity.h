// Prices for device models that some tasks are pinned to, so that tasks with a choice leave them.
//
// The demand of the mix is scaled to what is free now, each class of tasks (the set of models it
// allows) spread evenly over the free GPUs it allows; the price of a model is the share of its
// free GPUs that pinned classes would take: 0 nobody is pinned to it, 1 they alone fill it. As
// free capacity is what it is measured by, the price rises while a model runs short and fades when
// the demand for it has been served by other models' shortage. Leaves out node classes and cpu.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/small_jobs/policy.h"
#include "scheduler/small_jobs/task_mix.h"
#include "scheduler/state/shape.h"

namespace longhaul::scheduler {

class ScarcityPrices {
 public:
  // `models` device models, numbered from 0.
  ScarcityPrices(const ShapeTable& shapes, const TaskMix& mix, size_t models,
                 const SmallJobPolicy& policy);

  // By model, in thousandths; `free_milli` is what is free of each model. All zero when no task of
  // the mix is pinned.
  std::vector<int64_t> Form(std::span<const int64_t> free_milli) const;

  bool any_pinned() const { return !pinned_.empty(); }

 private:
  struct Class {
    uint64_t models;
    int64_t demand;  // weight x thousandths of a GPU
  };

  int64_t largest_;
  int64_t percent_;
  size_t models_;
  int64_t demand_ = 0;         // of all classes
  std::vector<Class> pinned_;  // those that don't allow all models
};

}  // namespace longhaul::scheduler
