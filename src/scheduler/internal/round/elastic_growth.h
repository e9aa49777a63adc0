// The pass that distributes the GPUs which no waiting job can use among the elastic jobs.
//
// gang/elastic_counts.h chooses the counts that have the greatest value in all. A plan that also
// shrinks jobs is preferred only if it gains enough, because a shrunk job restarts too.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "scheduler/internal/round/round_context.h"

namespace longhaul::scheduler::internal {

class ElasticGrowth {
 public:
  // `context` outlives this.
  explicit ElasticGrowth(RoundContext& context) : context_(context) {}

  // Once per Policy::elastic_period: shrinks and grows the elastic jobs that run undisturbed.
  void Run();

 private:
  // The new count of tasks of each job that changes.
  using Counts = std::vector<std::pair<JobNumber, int32_t>>;

  bool Lands(const Counts& counts);
  bool GrowBy(JobEntry& job, int32_t tasks);
  void ShrinkBy(JobEntry& job, int32_t tasks);

  RoundContext& context_;
};

}  // namespace longhaul::scheduler::internal
