// How many GPUs each elastic job gets: the largest sum of values within the capacity.
//
// Each job has options (GPUs, value), one of which it gets; its value is what the caller makes of
// goodput: speed-up over its fair share, or minus its inverse (the power mean with p = -1), times
// remaining / (remaining + restart) where the option differs from what runs now (goodput.h). Exact
// by the multiple-choice knapsack (jobs x options x capacity steps) up to the step limit; beyond
// it, marginal value a GPU along each job's concave hull, then exchanges: any one job, and any two
// jobs together, to the best options that fit. `bound` is the hull's linear relaxation, which no
// allocation can pass; sizes that all GPUs divide are divided out first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::scheduler {

struct ElasticOption {
  int32_t gpus = 0;
  int64_t value = 0;
};

struct ElasticJob {
  std::vector<ElasticOption> options;  // ascending by GPUs, at least one
};

struct ElasticAnswer {
  bool feasible = false;         // the least options of all jobs fit
  bool proven = false;           // no allocation has a larger value
  std::vector<int32_t> choices;  // the option of each job
  int64_t value = 0;
  int64_t bound = 0;
  int64_t gpus = 0;
};

// Requires GPUs >= 0, |value| < 2^40 and at most 2^20 jobs. Of equal values fewer GPUs are
// chosen, then options with fewer GPUs for the first jobs.
ElasticAnswer ChooseElasticCounts(std::span<const ElasticJob> jobs, int64_t capacity,
                                  int64_t max_steps = 50'000'000);

}  // namespace longhaul::scheduler
