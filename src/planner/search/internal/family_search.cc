#include "planner/search/internal/family_search.h"

#include <cmath>

#include "planner/search/internal/never.h"

namespace longhaul::planner::search::internal {
namespace {

using spec::PlacementOrder;
using spec::Recompute;
using spec::Training;

// Plans of a stage's recompute are looked at faster than layouts.
constexpr uint64_t kPlansALayout = 16;

}  // namespace

// Inside a family all layouts have one number of GPUs, so the objective is the step time multiplied
// by a constant, and the search compares seconds. A step of exactly the longest one is allowed;
// nextafter makes the strict comparison with the threshold admit it.
FamilySearch::FamilySearch(const PlanRequest& job, Oracle& oracle, const GpuCount& gpus,
                           double threshold, const Candidate* known, uint64_t effort,
                           const Options& options)
    : job_(job),
      oracle_(oracle),
      reach_(job),
      stop_(options.stop),
      expired_(options.expired),
      effort_limit_(effort),
      oracle_effort_(oracle.effort()),
      limit_(MemoryLimit(job)),
      weight_(gpus.weight),
      threshold_(std::min(threshold / gpus.weight, std::nextafter(gpus.longest_step_s, kNever))),
      keep_regions_(options.keep_regions) {
  best_.step_s = kNever;
  if (known != nullptr) best_ = *known;
  smallest_.memory_bytes = std::numeric_limits<int64_t>::max();
}

void FamilySearch::Visit(const Shape& shape, uint32_t index) {
  index_ = index;
  training_ = job_.base;
  training_.layout = {};
  training_.recompute = {};
  training_.stage_recompute.clear();
  Apply(shape, training_);
  orders_ = Orders(job_, shape);
  recomputes_ = RecomputeChoices(job_, shape);
  const std::vector<uint32_t> micro_batches = MicroBatches(job_, shape);
  if (micro_batches.empty()) return;
  // States come first, although they are a lower level of the tree: their memory does not depend on
  // the choices in between, so what does not fit is removed once for all of these.
  KeepFittingStates(shape, micro_batches);
  if (states_.empty()) return;
  struct Micro {
    double bound;
    uint32_t size;
  };
  std::vector<Micro> micros;
  for (const uint32_t size : micro_batches) {
    training_.batch.micro = size;
    micros.push_back({Call(oracle_.ShapeBound(training_)), size});
  }
  // The least bound first: it lowers the threshold soonest, and the sort keeps the order of equals.
  std::stable_sort(micros.begin(), micros.end(),
                   [](const Micro& a, const Micro& b) { return a.bound < b.bound; });
  for (const Micro& micro : micros) {
    if (stop_ && stop_()) return;
    training_.batch.micro = micro.size;
    if (micro.bound >= Threshold()) {
      Prune(Rule::kShapeTime, micro.bound, PointsOf(shape, micro.size) * states_.size());
    } else if (IsSpent()) {
      Leave(micro.bound, PointsOf(shape, micro.size) * states_.size());
    } else {
      VisitMicro(shape, micro.size);
    }
  }
}

uint64_t FamilySearch::effort() const {
  return effort_ ? *effort_ : calls + (oracle_.effort() - oracle_effort_) / kPlansALayout;
}

// Once spent, the search stays spent: `expired_` is a clock of the caller's and may be called at
// other moments, and what follows must be left out consistently.
bool FamilySearch::IsSpent() {
  spent_ = spent_ || effort() >= effort_limit_ || (expired_ && expired_());
  return spent_;
}

void FamilySearch::Leave(double bound, uint64_t count) {
  if (count == 0) return;
  points[static_cast<size_t>(Rule::kNotSearched)] += count;
  open_bound_ = std::min(open_bound_, bound);
}

double FamilySearch::Call(double figure) {
  ++calls;
  return figure;
}

// Records a region with the current, unfinished training. Every point of the space is counted by
// exactly one rule, which the proof checks by the sum.
void FamilySearch::Prune(Rule rule, double bound, uint64_t count) {
  if (count == 0) return;
  points[static_cast<size_t>(rule)] += count;
  if (keep_regions_) pruned.push_back({index_, training_, rule, bound, count});
}

uint64_t FamilySearch::PointsOf(const Shape& shape, uint32_t micro) {
  return stages_.Of(job_, shape, micro).size() * recomputes_.size() * orders_.size();
}

void FamilySearch::KeepFittingStates(const Shape& shape,
                                     const std::vector<uint32_t>& micro_batches) {
  uint64_t below = 0;
  for (const uint32_t micro : micro_batches) below += PointsOf(shape, micro);
  states_.clear();
  for (const States& states : StateChoices(job_, shape)) {
    Apply(states, training_);
    training_.batch.micro = 1;
    ++calls;
    const int64_t bytes = oracle_.StatesMemoryBound(training_);
    if (bytes > limit_) {
      Prune(Rule::kStatesMemory, static_cast<double>(bytes), below);
      if (bytes < smallest_.memory_bytes) smallest_ = {training_, 0, bytes};
    } else {
      states_.push_back(states);
    }
  }
  Apply(States{}, training_);
}

void FamilySearch::VisitMicro(const Shape& shape, uint32_t micro) {
  struct Choice {
    double bound;
    const Stages* stages;
  };
  std::vector<Choice> choices;
  for (const Stages& stages : stages_.Of(job_, shape, micro)) {
    Apply(stages, training_);
    choices.push_back({Call(oracle_.StagesBound(training_)), &stages});
  }
  std::stable_sort(choices.begin(), choices.end(),
                   [](const Choice& a, const Choice& b) { return a.bound < b.bound; });
  for (const Choice& choice : choices) {
    if (stop_ && stop_()) return;
    Apply(*choice.stages, training_);
    if (choice.bound >= Threshold()) {
      Prune(Rule::kStagesTime, choice.bound, states_.size() * recomputes_.size() * orders_.size());
    } else if (IsSpent()) {
      Leave(choice.bound, states_.size() * recomputes_.size() * orders_.size());
    } else {
      VisitStages();
    }
  }
  Apply(Stages{}, training_);
}

// The innermost loops over states and recompute. `seen` is shared by all states of the current
// stages, because a result for one offload can settle the same recompute with other offloads.
void FamilySearch::VisitStages() {
  struct Choice {
    double bound;
    States states;
  };
  std::vector<Choice> choices;
  const uint64_t below = recomputes_.size() * orders_.size();
  for (const States& states : states_) {
    Apply(states, training_);
    const bool same = !choices.empty() && choices.back().states.zero_stage == states.zero_stage &&
                      choices.back().states.shard_group == states.shard_group;
    choices.push_back({same ? choices.back().bound : Call(oracle_.StatesBound(training_)), states});
  }
  // Without offload first: the bound of a shard's states does not look at it.
  std::stable_sort(choices.begin(), choices.end(),
                   [](const Choice& a, const Choice& b) { return a.bound < b.bound; });
  std::vector<Seen> seen;
  for (const Choice& choice : choices) {
    Apply(choice.states, training_);
    Seen& of_shard = SeenOf(choice.states, seen);
    if (choice.bound >= Threshold()) {
      PruneStates(choice.bound, below, of_shard);
      continue;
    }
    if (IsSpent()) {
      Leave(choice.bound, below);
      continue;
    }
    if (!reach_.MayBeReached(training_, recomputes_)) {
      Prune(Rule::kFramework, 0, below);
      continue;
    }
    ++calls;
    if (!oracle_.MayFit(training_)) {
      Prune(Rule::kAnyMemory, kNever, below);
      KeepSmallestOfAny();
      continue;
    }
    for (size_t i = 0; i < recomputes_.size(); ++i) {
      if (IsSpent()) {
        Leave(choice.bound, (recomputes_.size() - i) * orders_.size());
        break;
      }
      i = SkipFull(i, of_shard);
      if (i < recomputes_.size()) VisitRecompute(recomputes_[i], of_shard);
    }
    training_.recompute = {};
    training_.stage_recompute.clear();
  }
  Apply(States{}, training_);
}

void FamilySearch::PruneStates(double bound, uint64_t below, Seen& seen) {
  if (seen.region == kNoRegion) {
    Prune(Rule::kStatesTime, bound, below);
    if (keep_regions_) seen.region = pruned.size() - 1;
    return;
  }
  points[static_cast<size_t>(Rule::kStatesTime)] += below;
  pruned[seen.region].points += below;
}

FamilySearch::Seen& FamilySearch::SeenOf(const States& states, std::vector<Seen>& seen) {
  for (Seen& each : seen) {
    if (each.zero_stage == states.zero_stage && each.shard_group == states.shard_group) {
      return each;
    }
  }
  seen.push_back({states.zero_stage, states.shard_group, kNoRegion, {}, {}});
  return seen.back();
}

// A heavier recompute is never faster, so it is settled where a lighter one is too slow by its
// bound, or fits. The same holds for offload: a choice without offload settles all offloads, a
// choice with one settles only the same offload.
std::pair<FamilySearch::Settled*, Rule> FamilySearch::Lighter(const Recompute& recompute,
                                                              Seen& seen) const {
  for (auto& [list, rule] :
       {std::pair(&seen.slow, Rule::kRecomputeTime), std::pair(&seen.fits, Rule::kDominated)}) {
    for (Settled& settled : *list) {
      if (settled.offload != spec::Offload::kNone && settled.offload != training_.offload) {
        continue;
      }
      if (IsLighter(settled.recompute, recompute)) return {&settled, rule};
    }
  }
  return {nullptr, Rule::kEvaluated};
}

size_t FamilySearch::SkipFull(size_t begin, Seen& seen) {
  const auto partly = [](const Recompute& recompute) {
    return recompute.kind == spec::RecomputeKind::kFull && recompute.full_layers > 0;
  };
  if (!partly(recomputes_[begin]) || Lighter(recomputes_[begin], seen).first != nullptr) {
    return begin;
  }
  // Memory falls with the number of layers, so the first one that fits is found by bisection:
  // log2(n) memory evaluations instead of n.
  const auto first = recomputes_.begin() + static_cast<ptrdiff_t>(begin);
  const auto last = std::find_if_not(first, recomputes_.end(), partly);
  const auto fitting = std::partition_point(first, last, [this](const Recompute& recompute) {
    training_.recompute = recompute;
    ++calls;
    return !oracle_.Fits(training_);
  });
  if (fitting != first) {
    training_.recompute = *std::prev(fitting);
    training_.stage_recompute.clear();
    KeepSmallest();
    Prune(Rule::kMemory, kNever, static_cast<uint64_t>(fitting - first) * orders_.size());
  }
  return static_cast<size_t>(fitting - recomputes_.begin());
}

void FamilySearch::Join(Settled& settled, Rule rule) {
  points[static_cast<size_t>(rule)] += orders_.size();
  if (!keep_regions_) return;
  if (settled.region == kNoRegion) {
    settled.region = pruned.size();
    pruned.push_back({index_, training_, rule, 0, 0});
    pruned.back().training.recompute = settled.recompute;
    pruned.back().training.offload = settled.offload;
  }
  pruned[settled.region].points += orders_.size();
}

// The memory of fixed runs is checked first. Where the runs are open, the bound is infinite if no
// choice fits. The choice itself is made for each order, after the step without any recompute has
// shown that the order can be fast enough.
void FamilySearch::VisitByStage() {
  const double bound = Call(oracle_.RecomputeBound(training_, Threshold()));
  if (bound == kNever || !training_.stage_recompute.empty()) {
    ++calls;
    if (!oracle_.Fits(training_)) {
      if (!training_.stage_recompute.empty()) KeepSmallest();
      return Prune(Rule::kMemory, kNever, orders_.size());
    }
  }
  if (bound >= Threshold()) return Prune(Rule::kRecomputeTime, bound, orders_.size());
  for (const PlacementOrder& order : orders_) {
    training_.layout.order = order;
    if (order != spec::kUsualOrder && !reach_.IsReached(training_)) {
      Prune(Rule::kFramework, 0, 1);
      continue;
    }
    ++points[static_cast<size_t>(Rule::kEvaluated)];
    Training chosen = training_;
    chosen.recompute = {};
    chosen.stage_recompute.clear();
    // Without recompute, which a choice cannot beat.
    if (Call(oracle_.StepSeconds(chosen)) >= Threshold()) continue;
    chosen = training_;
    if (chosen.stage_recompute.empty() && !oracle_.Choose(chosen, Threshold())) continue;
    const double step_s = Call(oracle_.StepSeconds(chosen));
    if (step_s >= Threshold()) continue;
    const int64_t bytes = oracle_.MemoryBytes(chosen);
    if (bytes <= limit_) best_ = {chosen, step_s, bytes, step_s * weight_};
  }
  training_.layout.order = spec::kUsualOrder;
}

void FamilySearch::VisitRecompute(const Recompute& recompute, Seen& seen) {
  training_.recompute = recompute;
  training_.stage_recompute.clear();
  if (const auto [lighter, rule] = Lighter(recompute, seen); lighter != nullptr) {
    return Join(*lighter, rule);
  }
  if (!reach_.IsReached(training_)) {
    Prune(Rule::kFramework, 0, orders_.size());
    return;
  }
  if (recompute.kind == spec::RecomputeKind::kByStage) {
    training_.stage_recompute = job_.fixed.stage_recompute;
    VisitByStage();
    training_.stage_recompute.clear();
    return;
  }
  // The bound comes before the memory: a layout that is too slow settles heavier ones even if it
  // does not fit.
  const double bound = Call(oracle_.RecomputeBound(training_, kNever));
  if (bound >= Threshold()) {
    Prune(Rule::kRecomputeTime, bound, orders_.size());
    seen.slow.push_back({recompute, training_.offload, keep_regions_ ? pruned.size() - 1 : 0});
    return;
  }
  ++calls;
  if (!oracle_.Fits(training_)) {
    KeepSmallest();
    return Prune(Rule::kMemory, kNever, orders_.size());
  }
  seen.fits.push_back({recompute, training_.offload, kNoRegion});
  for (const PlacementOrder& order : orders_) VisitOrder(order);
  training_.layout.order = spec::kUsualOrder;
}

void FamilySearch::KeepSmallest() {
  if (best_.step_s != kNever) return;
  const int64_t bytes = oracle_.MemoryBytes(training_);
  if (bytes < smallest_.memory_bytes) smallest_ = {training_, 0, bytes};
}

// Full recompute is the last choice of the list and keeps least. A fixed recompute is the only one.
void FamilySearch::KeepSmallestOfAny() {
  training_.recompute = recomputes_.back();
  if (training_.recompute.kind != spec::RecomputeKind::kByStage) KeepSmallest();
  training_.recompute = {};
}

void FamilySearch::VisitOrder(const PlacementOrder& order) {
  training_.layout.order = order;
  if (order != spec::kUsualOrder && !reach_.IsReached(training_)) {
    Prune(Rule::kFramework, 0, 1);
    return;
  }
  points[static_cast<size_t>(Rule::kEvaluated)] += 1;
  const double step_s = Call(oracle_.StepSeconds(training_));
  if (step_s < Threshold()) {
    best_ = {training_, step_s, oracle_.MemoryBytes(training_), step_s * weight_};
  }
}

}  // namespace longhaul::planner::search::internal
