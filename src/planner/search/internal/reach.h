// The points of a search for which a framework has options.
#pragma once

#include <span>

#include "planner/evaluation.h"
#include "planner/search/plan_request.h"

namespace longhaul::planner::search::internal {

class Reachable {
 public:
  explicit Reachable(const PlanRequest& job);

  // Whether a framework has options for the layout as it is.
  bool IsReached(const spec::Training& training);
  // Whether one has options for it with one of these recomputes. Checks the first and last, the
  // lightest and the heaviest: a framework that supports one in between supports one of these,
  // which the proof compares with all. Requires at least one.
  bool MayBeReached(const spec::Training& training, std::span<const spec::Recompute> recomputes);

 private:
  bool IsReached();

  Reach reach_;
  flags::Framework framework_;
  Question question_;
};

}  // namespace longhaul::planner::search::internal
