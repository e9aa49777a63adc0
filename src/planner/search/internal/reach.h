// Which points of a search some framework has options for.
#pragma once

#include <span>

#include "planner/evaluation.h"
#include "planner/search/job.h"

namespace longhaul::planner::search::internal {

class Reachable {
 public:
  explicit Reachable(const Job& job);

  // Whether the layout as it stands can be written down.
  bool IsReached(const spec::Training& training);
  // Whether it can with any of these recomputes in place of its own.
  bool MayBeReached(const spec::Training& training, std::span<const spec::Recompute> recomputes);

 private:
  Reach reach_;
  flags::Framework framework_;
  Question question_;
};

}  // namespace longhaul::planner::search::internal
