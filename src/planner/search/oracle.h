// The search's interface to the cost model: figures of whole layouts, bounds of unfinished ones.
//
// A bound is never above the figure of any layout within the job's reach that
// completes the given choices (tested over random layouts, and audited by --prove
// on every search). Time bounds tighten down the tree of space.h; they leave out
// open choices, and assume for every group the place where its collectives are
// fastest:
//   shape      the layers' mean compute and collectives per stage, times the micro-batches
//   stages     the schedule with those stages, without recompute and data-parallel traffic
//   states     the same with data-parallel traffic and optimizer
//   recompute  the whole step, every group at its best place
// Memory does not depend on the place of groups, so a layout's memory is exact for all orders. Its
// bound for a shape's states is the mean stage's weights, gradients and optimizer alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "planner/evaluate.h"
#include "planner/search/plan_request.h"

namespace longhaul::planner::search {

// Use one per thread: implementations cache parts.
class Oracle {
 public:
  virtual ~Oracle() = default;

  // Where recompute is by stage and no runs are given, each stage gets the knapsack's choice
  // (stage_recompute.h): Choose sets it, and the figures below apply to that choice. A layout that
  // fits with no choice has an infinite step and bound, and more memory than the limit. Returns
  // false where nothing fits, or a step of the choice takes at least `enough`.
  virtual bool Choose(spec::Training& training, double enough) = 0;

  virtual double StepSeconds(const spec::Training& training) = 0;
  virtual int64_t MemoryBytes(const spec::Training& training) = 0;  // on the fullest GPU, in all
  // Whether that is at most MemoryLimit of the job.
  virtual bool Fits(const spec::Training& training) = 0;
  // False where no choice of recompute fits.
  virtual bool MayFit(const spec::Training& training) = 0;

  virtual double ShapeBound(const spec::Training& training) = 0;
  virtual double StagesBound(const spec::Training& training) = 0;
  virtual double StatesBound(const spec::Training& training) = 0;
  // Where the bound is at least `enough`, any bound that is at least `enough` may be returned.
  virtual double RecomputeBound(const spec::Training& training, double enough) = 0;
  // The plans that Choose has evaluated so far, in all calls: the same for the same calls.
  virtual uint64_t effort() const { return 0; }
  // For the shape and its states, with any micro-batch, stages and recompute.
  virtual int64_t StatesMemoryBound(const spec::Training& training) = 0;
};

using OracleFactory = std::function<std::unique_ptr<Oracle>()>;

// The oracle by planner/evaluate.h. Copies the needed parts of the job.
OracleFactory EvaluatorOracle(const PlanRequest& job);

// Bytes that a layout of the job may take on a GPU.
int64_t MemoryLimit(const PlanRequest& job);

}  // namespace longhaul::planner::search
