#include "planner/search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "planner/search/internal/reach.h"

namespace longhaul::planner::search {
namespace {

using spec::PlacementOrder;
using spec::Recompute;
using spec::Training;

constexpr double kNever = std::numeric_limits<double>::infinity();
// Of the first round; each has twice as many as the one before, as what is known grows ever less.
constexpr size_t kFamiliesARound = 8;
constexpr size_t kNoRegion = std::numeric_limits<size_t>::max();

bool Better(const Candidate& a, const Candidate& b) {
  if (a.objective != b.objective) return a.objective < b.objective;
  return a.memory_bytes < b.memory_bytes;
}

// One family's work: everything below its shapes.
class FamilySearch {
 public:
  // `threshold` is of the objective.
  FamilySearch(const Job& job, Oracle& oracle, const CardCount& cards, double threshold,
               const Options& options)
      : job_(job),
        oracle_(oracle),
        reach_(job),
        stop_(options.stop),
        limit_(MemoryLimit(job)),
        weight_(cards.weight),
        threshold_(
            std::min(threshold / cards.weight, std::nextafter(cards.longest_step_s, kNever))),
        keep_regions_(options.keep_regions) {
    best_.step_s = kNever;
    smallest_.memory_bytes = std::numeric_limits<int64_t>::max();
  }

  void Visit(const Shape& shape, uint32_t index) {
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
    std::stable_sort(micros.begin(), micros.end(),
                     [](const Micro& a, const Micro& b) { return a.bound < b.bound; });
    for (const Micro& micro : micros) {
      if (stop_ && stop_()) return;
      training_.batch.micro = micro.size;
      if (micro.bound >= Threshold()) {
        Prune(Rule::kShapeTime, micro.bound, PointsOf(shape, micro.size) * states_.size());
      } else {
        VisitMicro(shape, micro.size);
      }
    }
  }

  const Candidate& best() const { return best_; }
  const Candidate& smallest() const { return smallest_; }
  std::array<uint64_t, kRules> points{};
  uint64_t calls = 0;
  std::vector<Region> pruned;

 private:
  double Threshold() const { return std::min(threshold_, best_.step_s); }

  double Call(double figure) {
    ++calls;
    return figure;
  }

  void Prune(Rule rule, double bound, uint64_t count) {
    if (count == 0) return;
    points[static_cast<size_t>(rule)] += count;
    if (keep_regions_) pruned.push_back({index_, training_, rule, bound, count});
  }

  // Points below a micro-batch for one choice of states.
  uint64_t PointsOf(const Shape& shape, uint32_t micro) {
    return stages_.Of(job_, shape, micro).size() * recomputes_.size() * orders_.size();
  }

  void KeepFittingStates(const Shape& shape, const std::vector<uint32_t>& micro_batches) {
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

  void VisitMicro(const Shape& shape, uint32_t micro) {
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
        Prune(Rule::kStagesTime, choice.bound,
              states_.size() * recomputes_.size() * orders_.size());
      } else {
        VisitStages();
      }
    }
    Apply(Stages{}, training_);
  }

  void VisitStages() {
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
      choices.push_back(
          {same ? choices.back().bound : Call(oracle_.StatesBound(training_)), states});
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
        i = SkipFull(i, of_shard);
        if (i < recomputes_.size()) VisitRecompute(recomputes_[i], of_shard);
      }
      training_.recompute = {};
      training_.stage_recompute.clear();
    }
    Apply(States{}, training_);
  }

  // A choice that heavier ones need not be looked at for, and the region that they join.
  struct Settled {
    Recompute recompute;
    spec::Offload offload = spec::Offload::kNone;
    size_t region = kNoRegion;
  };

  // What is known of one ZeRO stage and shard group of the stages in hand, over all offloads.
  struct Seen {
    uint32_t zero_stage = 0;
    uint32_t shard_group = 0;
    size_t region = kNoRegion;  // of kStatesTime
    std::vector<Settled> fits;  // all their orders were looked at
    std::vector<Settled> slow;  // by a bound
  };

  // With offload the bound is the same: one region for all.
  void PruneStates(double bound, uint64_t below, Seen& seen) {
    if (seen.region == kNoRegion) {
      Prune(Rule::kStatesTime, bound, below);
      if (keep_regions_) seen.region = pruned.size() - 1;
      return;
    }
    points[static_cast<size_t>(Rule::kStatesTime)] += below;
    pruned[seen.region].points += below;
  }

  static Seen& SeenOf(const States& states, std::vector<Seen>& seen) {
    for (Seen& each : seen) {
      if (each.zero_stage == states.zero_stage && each.shard_group == states.shard_group) {
        return each;
      }
    }
    seen.push_back({states.zero_stage, states.shard_group, kNoRegion, {}, {}});
    return seen.back();
  }

  // What settles the layout in hand with that recompute: a lighter choice that was seen, and how.
  std::pair<Settled*, Rule> Lighter(const Recompute& recompute, Seen& seen) const {
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

  // Of 1, 2, ... layers a stage recomputed in full, from `begin` on, each keeps less than the one
  // before and rebuilds as much: those that do not fit are the first ones, and one region. Returns
  // where to go on.
  size_t SkipFull(size_t begin, Seen& seen) {
    const auto partly = [](const Recompute& recompute) {
      return recompute.kind == spec::RecomputeKind::kFull && recompute.full_layers > 0;
    };
    if (!partly(recomputes_[begin]) || Lighter(recomputes_[begin], seen).first != nullptr) {
      return begin;
    }
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

  // Adds the layout in hand to the region of a lighter one, which is opened with the first.
  void Join(Settled& settled, Rule rule) {
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

  // Each stage by itself: chosen anew for each order, as it decides what collectives cost.
  void VisitByStage() {
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

  void VisitRecompute(const Recompute& recompute, Seen& seen) {
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

  // Of what does not fit, while nothing was found that does.
  void KeepSmallest() {
    if (best_.step_s != kNever) return;
    const int64_t bytes = oracle_.MemoryBytes(training_);
    if (bytes < smallest_.memory_bytes) smallest_ = {training_, 0, bytes};
  }

  // Likewise of a layout that no recompute makes fit, by what keeps least.
  void KeepSmallestOfAny() {
    training_.recompute = recomputes_.back();
    if (training_.recompute.kind != spec::RecomputeKind::kByStage) KeepSmallest();
    training_.recompute = {};
  }

  void VisitOrder(const PlacementOrder& order) {
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

  const Job& job_;
  Oracle& oracle_;
  internal::Reachable reach_;
  const std::function<bool()>& stop_;
  const int64_t limit_;
  const double weight_;
  const double threshold_;  // seconds
  const bool keep_regions_;

  uint32_t index_ = 0;
  Training training_;
  StageLists stages_;
  std::vector<States> states_;
  std::vector<Recompute> recomputes_;
  std::vector<PlacementOrder> orders_;
  Candidate best_;
  Candidate smallest_;
};

struct Family {
  size_t begin = 0;
  size_t end = 0;         // shapes
  double bound = kNever;  // of the objective
};

std::vector<Family> FamiliesOf(const Job& job, const std::vector<Shape>& shapes, Oracle& oracle,
                               uint64_t& calls) {
  std::vector<Family> families;
  Training training = job.base;
  training.layout = {};
  training.recompute = {};
  training.stage_recompute.clear();
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (families.empty() || !shapes[i].SameFamily(shapes[families.back().begin])) {
      families.push_back({i, i, kNever});
    }
    families.back().end = i + 1;
    Apply(shapes[i], training);
    for (const uint32_t micro : MicroBatches(job, shapes[i])) {
      training.batch.micro = micro;
      ++calls;
      const double bound = oracle.ShapeBound(training) * shapes[i].cards.weight;
      families.back().bound = std::min(families.back().bound, bound);
    }
  }
  std::stable_sort(families.begin(), families.end(),
                   [](const Family& a, const Family& b) { return a.bound < b.bound; });
  return families;
}

void Merge(FamilySearch& family, uint32_t keep, Outcome& outcome) {
  for (size_t rule = 0; rule < kRules; ++rule) outcome.points[rule] += family.points[rule];
  outcome.oracle_calls += family.calls;
  outcome.pruned.insert(outcome.pruned.end(), std::make_move_iterator(family.pruned.begin()),
                        std::make_move_iterator(family.pruned.end()));
  if (family.smallest().memory_bytes < outcome.smallest.memory_bytes) {
    outcome.smallest = family.smallest();
  }
  if (family.best().step_s == kNever) return;
  std::vector<Candidate>& best = outcome.best;
  best.insert(std::upper_bound(best.begin(), best.end(), family.best(), Better), family.best());
  if (best.size() > keep) best.pop_back();
}

}  // namespace

std::string_view ToString(Rule rule) {
  switch (rule) {
    case Rule::kEvaluated:
      return "computed in full";
    case Rule::kStatesMemory:
      return "weights, gradients and optimizer alone do not fit";
    case Rule::kShapeTime:
      return "layers alone take longer";
    case Rule::kStagesTime:
      return "the pipeline alone takes longer";
    case Rule::kFramework:
      return "no framework has options for it";
    case Rule::kStatesTime:
      return "longer even without recompute, at the best place";
    case Rule::kAnyMemory:
      return "does not fit, whatever is recomputed";
    case Rule::kMemory:
      return "does not fit";
    case Rule::kRecomputeTime:
      return "longer at the best place of every group";
    case Rule::kDominated:
      return "less recompute or offload fits already";
  }
  return "";
}

uint64_t Outcome::total_points() const {
  return std::accumulate(points.begin(), points.end(), uint64_t{0});
}

Outcome Search(const Job& job, const OracleFactory& factory, const Options& options) {
  CHECK(options.keep >= 1 && options.workers >= 1);
  Outcome outcome;
  outcome.smallest.memory_bytes = std::numeric_limits<int64_t>::max();
  std::vector<std::unique_ptr<Oracle>> oracles;
  for (size_t i = 0; i < options.workers; ++i) oracles.push_back(factory());
  const std::vector<Shape> shapes = Shapes(job);
  outcome.shapes = shapes.size();
  const std::vector<Family> families =
      FamiliesOf(job, shapes, *oracles.front(), outcome.oracle_calls);
  const auto execute = [&options](size_t count, const Options::Task& task) {
    if (options.execute) {
      options.execute(count, task);
    } else {
      for (size_t i = 0; i < count; ++i) task(0, i);
    }
  };
  size_t round = kFamiliesARound;
  for (size_t begin = 0; begin < families.size(); begin += round / 2) {
    outcome.searched_share = static_cast<double>(begin) / static_cast<double>(families.size());
    outcome.cancelled = options.progress && !options.progress(outcome.searched_share);
    if (outcome.cancelled) return outcome;
    const size_t count = std::min(round, families.size() - begin);
    round *= 2;
    const double threshold =
        outcome.best.size() < options.keep ? kNever : outcome.best.back().objective;
    std::vector<std::unique_ptr<FamilySearch>> searches(count);
    execute(count, [&](size_t worker, size_t index) {
      const Family& family = families[begin + index];
      auto search = std::make_unique<FamilySearch>(job, *oracles[worker],
                                                   shapes[family.begin].cards, threshold, options);
      for (size_t i = family.begin; i < family.end; ++i) {
        search->Visit(shapes[i], static_cast<uint32_t>(i));
      }
      searches[index] = std::move(search);
    });
    for (const auto& search : searches) Merge(*search, options.keep, outcome);
    outcome.cancelled = options.stop && options.stop();
    if (outcome.cancelled) return outcome;
  }
  outcome.searched_share = 1;
  return outcome;
}

}  // namespace longhaul::planner::search
