// Which points of a search some framework has options for.
#pragma once

#include <span>

#include "planner/evaluation.h"
#include "planner/search/plan_request.h"

namespace longhaul::planner::search::internal {

class Reachable {
 public:
  explicit Reachable(const PlanRequest& job);

  // Whether the layout as it stands can be written down.
  bool IsReached(const spec::Training& training);
  // Whether it can with one of these recomputes in place of its own. Looks at the first and last,
  // the lightest and the heaviest: every framework that takes one between takes one of them, which
  // the proof holds against all. Requires one at least.
  bool MayBeReached(const spec::Training& training, std::span<const spec::Recompute> recomputes);

 private:
  bool IsReached();

  Reach reach_;
  flags::Framework framework_;
  Question question_;
};

}  // namespace longhaul::planner::search::internal
