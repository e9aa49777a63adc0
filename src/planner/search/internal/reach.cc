#include "planner/search/internal/reach.h"

#include <algorithm>

namespace longhaul::planner::search::internal {

using flags::Framework;

Reachable::Reachable(const PlanRequest& job) : reach_(job.reach), framework_(job.framework) {
  question_.model = job.model;
  question_.cluster = job.cluster;
}

bool Reachable::IsReached(const spec::Training& training) {
  if (reach_ == Reach::kEverything) return true;
  question_.training = training;
  return IsReached();
}

bool Reachable::IsReached() {
  // By stage: all but the recompute.
  if (question_.training.recompute.kind == spec::RecomputeKind::kByStage) {
    question_.training.recompute = {};
    question_.training.stage_recompute.clear();
  }
  question_.cluster.devices = static_cast<uint32_t>(question_.training.layout.devices());
  if (reach_ == Reach::kOneFramework) return flags::CheckExpressible(framework_, question_).ok();
  constexpr Framework kAll[] = {Framework::kMegatron, Framework::kTorchtitan,
                                Framework::kDeepSpeed};
  return std::any_of(std::begin(kAll), std::end(kAll), [this](Framework framework) {
    return flags::CheckExpressible(framework, question_).ok();
  });
}

bool Reachable::MayBeReached(const spec::Training& training,
                             std::span<const spec::Recompute> recomputes) {
  if (reach_ == Reach::kEverything) return true;
  question_.training = training;
  for (const spec::Recompute* recompute : {&recomputes.front(), &recomputes.back()}) {
    question_.training.recompute = *recompute;
    if (IsReached()) return true;
  }
  return false;
}

}  // namespace longhaul::planner::search::internal
