// The search below one family of shapes: the shapes of one set of sizes, on one number of GPUs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "planner/search/gpus.h"
#include "planner/search/internal/reach.h"
#include "planner/search/oracle.h"
#include "planner/search/search.h"
#include "planner/search/space.h"

namespace longhaul::planner::search::internal {

constexpr size_t kNoRegion = std::numeric_limits<size_t>::max();

// Visits the shapes of a family one after the other and keeps the best layout below them. Points
// that it prunes or leaves out are counted by their rule.
class FamilySearch {
 public:
  // `threshold` is in units of the objective; `known` is a layout of this family, or null. The
  // search may use `effort`.
  FamilySearch(const PlanRequest& job, Oracle& oracle, const GpuCount& gpus, double threshold,
               const Candidate* known, uint64_t effort, const Options& options);

  void Visit(const Shape& shape, uint32_t index);

  // Ends the count of effort: the oracle continues with other families.
  void Finish() { effort_ = effort(); }

  const Candidate& best() const { return best_; }
  const Candidate& smallest() const { return smallest_; }
  // The bound of the points left out, in units of the objective.
  double open_bound() const { return open_bound_ * weight_; }
  uint64_t effort() const;
  std::array<uint64_t, kRules> points{};
  uint64_t calls = 0;
  std::vector<Region> pruned;

 private:
  double Threshold() const { return std::min(threshold_, best_.step_s); }

  bool IsSpent();

  // Counts points that are not evaluated, none of which is below the bound.
  void Leave(double bound, uint64_t count);

  double Call(double figure);

  void Prune(Rule rule, double bound, uint64_t count);

  // Points below a micro-batch for one choice of states.
  uint64_t PointsOf(const Shape& shape, uint32_t micro);

  void KeepFittingStates(const Shape& shape, const std::vector<uint32_t>& micro_batches);

  void VisitMicro(const Shape& shape, uint32_t micro);

  void VisitStages();

  // A choice that settles all heavier ones, and the region that they join.
  struct Settled {
    spec::Recompute recompute;
    spec::Offload offload = spec::Offload::kNone;
    size_t region = kNoRegion;
  };

  // The results for one ZeRO stage and shard group of the current stages, over all offloads.
  struct Seen {
    uint32_t zero_stage = 0;
    uint32_t shard_group = 0;
    size_t region = kNoRegion;  // of kStatesTime
    std::vector<Settled> fits;  // all their orders were evaluated
    std::vector<Settled> slow;  // too slow by a bound
  };

  // With offload the bound is the same: one region for all.
  void PruneStates(double bound, uint64_t below, Seen& seen);

  static Seen& SeenOf(const States& states, std::vector<Seen>& seen);

  // The lighter choice that settles the current layout with that recompute, and its rule.
  std::pair<Settled*, Rule> Lighter(const spec::Recompute& recompute, Seen& seen) const;

  // Of 1, 2, ... layers a stage recomputed in full, from `begin` on, each choice keeps less than
  // the one before and rebuilds as much: those that do not fit are the first ones, and form one
  // region. Returns the index at which to continue.
  size_t SkipFull(size_t begin, Seen& seen);

  // Adds the current layout to the region of a lighter one; the first one opens the region.
  void Join(Settled& settled, Rule rule);

  // Recompute by stage: chosen for each order, which determines the cost of collectives.
  void VisitByStage();

  void VisitRecompute(const spec::Recompute& recompute, Seen& seen);

  // Records a layout that does not fit, while no fitting one was found.
  void KeepSmallest();

  // The same for a layout that fits with no recompute, with the choice that keeps least.
  void KeepSmallestOfAny();

  void VisitOrder(const spec::PlacementOrder& order);

  const PlanRequest& job_;
  Oracle& oracle_;
  Reachable reach_;
  const std::function<bool()>& stop_;
  const std::function<bool()>& expired_;
  const uint64_t effort_limit_;
  const uint64_t oracle_effort_;  // before this family
  std::optional<uint64_t> effort_;
  bool spent_ = false;
  double open_bound_ = std::numeric_limits<double>::infinity();  // seconds
  const int64_t limit_;
  const double weight_;
  const double threshold_;  // seconds
  const bool keep_regions_;

  uint32_t index_ = 0;
  spec::Training training_;
  StageLists stages_;
  std::vector<States> states_;
  std::vector<spec::Recompute> recomputes_;
  std::vector<spec::PlacementOrder> orders_;
  Candidate best_;
  Candidate smallest_;
};

}  // namespace longhaul::planner::search::internal
