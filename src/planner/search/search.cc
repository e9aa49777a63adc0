#include "planner/search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "planner/search/internal/family_search.h"
#include "planner/search/internal/never.h"

namespace longhaul::planner::search {
namespace {

using internal::FamilySearch;
using spec::Training;

using internal::kNever;
// Of the first round; each has twice as many as the one before, as what is known grows ever less.
constexpr size_t kFamiliesARound = 8;
// Limits a round, so that progress is reported often and one round is a small part of the effort.
constexpr size_t kMostFamiliesARound = 256;
// Of those that were cut; few, so that the part of each is large.
constexpr size_t kCutFamiliesARound = 2;
// Of the effort, the first look at each family may take this share, and the search with one
// recompute for all stages this share of the rest.
constexpr uint64_t kShareOfLook = 8;
constexpr uint64_t kShareOfUniform = 2;
// Layouts that a first look takes of a family: enough to find one that fits in most.
constexpr uint64_t kLook = 2'000;

// Of equal objectives the layout with less memory is better. Where that is equal too, the order of
// the merge decides, which does not depend on threads.
bool Better(const Candidate& a, const Candidate& b) {
  if (a.objective != b.objective) return a.objective < b.objective;
  return a.memory_bytes < b.memory_bytes;
}

struct Family {
  size_t begin = 0;
  size_t end = 0;         // shapes
  double bound = kNever;  // of the objective
};

// The families in the order of their bounds, which are the least over their shapes and
// micro-batches. The bound is multiplied by the weight of the count of GPUs, so that families on
// different numbers of GPUs compare by the objective. The sort is stable, so equal bounds keep the
// order of the shapes.
std::vector<Family> FamiliesOf(const PlanRequest& job, const std::vector<Shape>& shapes,
                               Oracle& oracle, uint64_t& calls) {
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
      const double bound = oracle.ShapeBound(training) * shapes[i].gpus.weight;
      families.back().bound = std::min(families.back().bound, bound);
    }
  }
  std::stable_sort(families.begin(), families.end(),
                   [](const Family& a, const Family& b) { return a.bound < b.bound; });
  return families;
}

bool IsOfFamily(const Candidate& candidate, const Shape& shape) {
  const spec::Layout& layout = candidate.training.layout;
  return layout.tensor == shape.tensor && layout.context == shape.context &&
         layout.pipeline == shape.pipeline && layout.data == shape.data &&
         layout.expert == shape.expert && layout.expert_tensor == shape.expert_tensor;
}

// The list holds one layout of each family, so that the alternatives that a plan shows differ in
// more than their order. upper_bound inserts after equals: of equals the first one found wins.
void MergeBest(const FamilySearch& family, const Shape& shape, uint32_t keep, Outcome& outcome) {
  if (family.best().step_s == kNever) return;
  std::vector<Candidate>& best = outcome.best;
  // What was known of this family before is no better.
  std::erase_if(best, [&shape](const Candidate& known) { return IsOfFamily(known, shape); });
  best.insert(std::upper_bound(best.begin(), best.end(), family.best(), Better), family.best());
  if (best.size() > keep) best.pop_back();
}

// Requires calls in the order of the families, also where they were searched in parallel: the
// regions and the list of the best are in the order of the merge.
void Merge(FamilySearch& family, const Shape& shape, uint32_t keep, Outcome& outcome) {
  for (size_t rule = 0; rule < kRules; ++rule) outcome.points[rule] += family.points[rule];
  outcome.oracle_calls += family.calls;
  outcome.open_bound = std::min(outcome.open_bound, family.open_bound());
  outcome.pruned.insert(outcome.pruned.end(), std::make_move_iterator(family.pruned.begin()),
                        std::make_move_iterator(family.pruned.end()));
  if (family.smallest().memory_bytes < outcome.smallest.memory_bytes) {
    outcome.smallest = family.smallest();
  }
  MergeBest(family, shape, keep, outcome);
}

// The points of a shape that no family's search looked at.
uint64_t PointsBelow(const PlanRequest& job, const Shape& shape, StageLists& stages) {
  uint64_t choices = 0;
  for (const uint32_t micro : MicroBatches(job, shape)) {
    choices += stages.Of(job, shape, micro).size();
  }
  return choices * StateChoices(job, shape).size() * Orders(job, shape).size() *
         RecomputeChoices(job, shape).size();
}

// One space, searched from a list that may hold known layouts of it already.
class TreeSearch {
 public:
  // `whole`: all layouts that the search is of; a part proves nothing of the rest.
  TreeSearch(const PlanRequest& job, const Options& options,
             std::vector<std::unique_ptr<Oracle>>& oracles, std::vector<Candidate> known,
             bool whole)
      : job_(job), options_(options), oracles_(oracles), whole_(whole), shapes_(Shapes(job)) {
    outcome_.smallest.memory_bytes = std::numeric_limits<int64_t>::max();
    outcome_.shapes = shapes_.size();
    outcome_.best = std::move(known);
    families_ = FamiliesOf(job, shapes_, *oracles.front(), outcome_.oracle_calls);
  }

  // `effort` 0: no limit; no family takes more than `most`.
  Outcome Run(uint64_t effort, uint64_t most = std::numeric_limits<uint64_t>::max()) {
    effort_ = effort;
    size_t round = kFamiliesARound;
    for (size_t begin = 0; begin < families_.size();) {
      if (!IsGoingOn(begin)) return outcome_;
      if (IsSpent()) {
        LeaveFrom(begin);
        break;
      }
      std::vector<size_t> families(std::min(round, families_.size() - begin));
      std::iota(families.begin(), families.end(), begin);
      // Of what is left, each family of the round may take a part.
      Round(families, std::min(most, PartOf(families.size())));
      if (options_.stop && options_.stop()) return Cancelled(begin);
      begin += families.size();
      round = std::min(2 * round, kMostFamiliesARound);
    }
    if (effort > 0 && whole_ && !ReturnToCut()) return Cancelled(families_.size() - 1);
    for (const Cut& cut : cut_) MergeAll(*cut.search, cut.family);
    outcome_.limited = outcome_.points[static_cast<size_t>(Rule::kNotSearched)] > 0;
    outcome_.searched_share = 1;
    return std::move(outcome_);
  }

  uint64_t spent() const { return spent_; }

 private:
  // A family whose search ended at its part of the effort.
  struct Cut {
    size_t family = 0;
    uint64_t effort = 0;
    std::unique_ptr<FamilySearch> search;
  };

  bool IsSpent() const {
    return (effort_ > 0 && spent_ >= effort_) || (options_.expired && options_.expired());
  }

  // Of the effort that is left, an equal part for each of so many.
  uint64_t PartOf(size_t count) const {
    if (effort_ == 0) return std::numeric_limits<uint64_t>::max();
    return std::max<uint64_t>(1, (effort_ - std::min(effort_, spent_)) / count);
  }

  Outcome Cancelled(size_t begin) {
    outcome_.cancelled = true;
    outcome_.open_bound = OpenBound(begin);
    return outcome_;
  }

  // Of all that is not settled when the families from `begin` on are not begun.
  double OpenBound(size_t begin) const {
    // The searches of a part leave layouts out that may be faster, so only the root bound holds.
    if (!whole_) return families_.front().bound;
    double bound = std::min(outcome_.open_bound, families_[begin].bound);
    for (const Cut& cut : cut_) bound = std::min(bound, cut.search->open_bound());
    return bound;
  }

  // Searches families that were cut anew with what effort is left, those with the least bounds
  // first: what is known by now prunes more, and their parts are larger. False where it was
  // stopped.
  bool ReturnToCut() {
    while (!cut_.empty() && !IsSpent()) {
      std::stable_sort(cut_.begin(), cut_.end(), [](const Cut& a, const Cut& b) {
        return a.search->open_bound() < b.search->open_bound();
      });
      const size_t count = std::min(kCutFamiliesARound, cut_.size());
      const uint64_t part = PartOf(count);
      std::vector<size_t> families;
      for (size_t i = 0; i < count; ++i) {
        // A family is searched again only with more effort than last time.
        if (part <= cut_[i].effort) return true;
        families.push_back(cut_[i].family);
      }
      if (!IsGoingOn(families_.size() - 1)) return false;
      cut_.erase(cut_.begin(), cut_.begin() + static_cast<ptrdiff_t>(count));
      Round(families, part);
      if (options_.stop && options_.stop()) return false;
    }
    return true;
  }

  bool IsGoingOn(size_t begin) {
    outcome_.searched_share = static_cast<double>(begin) / static_cast<double>(families_.size());
    if (!options_.progress) return true;
    Outcome now;
    now.best = outcome_.best;
    now.open_bound = OpenBound(begin);
    const Standing standing{outcome_.searched_share, now.best.empty() ? nullptr : &now.best.front(),
                            now.gap()};
    outcome_.cancelled = !options_.progress(standing);
    if (outcome_.cancelled) outcome_.open_bound = now.open_bound;
    return !outcome_.cancelled;
  }

  // Each of the families may take `effort`.
  // The threshold and the list of the best are fixed while the round is in progress. A family
  // therefore sees only results of earlier rounds, and its work is the same whichever thread does
  // it, and in whichever order. Each task writes its own entry of `searches`.
  void Round(const std::vector<size_t>& families, uint64_t effort) {
    const bool full = outcome_.best.size() >= options_.keep;
    const double threshold = full ? outcome_.best.back().objective : kNever;
    std::vector<std::unique_ptr<FamilySearch>> searches(families.size());
    const auto task = [&](size_t worker, size_t index) {
      const Family& family = families_[families[index]];
      const Shape& first = shapes_[family.begin];
      const auto known =
          std::find_if(outcome_.best.begin(), outcome_.best.end(),
                       [&first](const Candidate& each) { return IsOfFamily(each, first); });
      auto search = std::make_unique<FamilySearch>(job_, *oracles_[worker], first.gpus, threshold,
                                                   known == outcome_.best.end() ? nullptr : &*known,
                                                   effort, options_);
      for (size_t i = family.begin; i < family.end; ++i) {
        search->Visit(shapes_[i], static_cast<uint32_t>(i));
      }
      search->Finish();
      searches[index] = std::move(search);
    };
    if (options_.execute) {
      options_.execute(families.size(), task);
    } else {
      for (size_t i = 0; i < families.size(); ++i) task(0, i);
    }
    for (size_t i = 0; i < families.size(); ++i) {
      spent_ += searches[i]->effort();
      const Shape& shape = shapes_[families_[families[i]].begin];
      // A family that was cut is merged with its best layout only. Its points are counted when it
      // is settled, or at the end, since a later search of it counts all of them again.
      if (searches[i]->open_bound() < kNever) {
        MergeBest(*searches[i], shape, options_.keep, outcome_);
        cut_.push_back({families[i], effort, std::move(searches[i])});
      } else {
        MergeAll(*searches[i], families[i]);
      }
    }
  }

  void MergeAll(FamilySearch& search, size_t family) {
    Merge(search, shapes_[families_[family].begin], options_.keep, outcome_);
  }

  // The families from `begin` on have not been begun. They are in the order of their bounds, so the
  // first bound holds for all.
  void LeaveFrom(size_t begin) {
    StageLists stages;
    for (size_t i = begin; i < families_.size(); ++i) {
      const Family& family = families_[i];
      for (size_t k = family.begin; k < family.end; ++k) {
        outcome_.points[static_cast<size_t>(Rule::kNotSearched)] +=
            PointsBelow(job_, shapes_[k], stages);
      }
    }
    outcome_.open_bound = std::min(outcome_.open_bound, families_[begin].bound);
  }

  const PlanRequest& job_;
  const Options& options_;
  std::vector<std::unique_ptr<Oracle>>& oracles_;
  const bool whole_;
  const std::vector<Shape> shapes_;
  std::vector<Family> families_;
  Outcome outcome_;
  std::vector<Cut> cut_;
  uint64_t effort_ = 0;
  uint64_t spent_ = 0;
};

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
    case Rule::kNotSearched:
      return "not searched: the search ended at its limit";
  }
  return "";
}

uint64_t Outcome::total_points() const {
  return std::accumulate(points.begin(), points.end(), uint64_t{0});
}

// Without a layout there is nothing to compare: either the search was complete and nothing fits, or
// nothing is known.
double Outcome::gap() const {
  if (best.empty()) return open_bound == kNever ? 0 : 1;
  const double objective = best.front().objective;
  return objective > 0 ? std::max(0.0, 1 - open_bound / objective) : 0;
}

namespace {

// The best layouts of parts of the space, found by searches that may leave much of it.
class FirstSearches {
 public:
  FirstSearches(const Options& options, std::vector<std::unique_ptr<Oracle>>& oracles)
      : options_(options), oracles_(oracles) {
    // The whole search visits every region again, so the regions of these searches would count
    // twice.
    options_.keep_regions = false;
    if (options.progress) {
      options_.progress = [&options](Standing standing) {
        standing.share = 0;
        return options.progress(standing);
      };
    }
  }

  // False where the search was cancelled.
  bool Run(const PlanRequest& job, uint64_t effort, uint64_t most) {
    TreeSearch search(job, options_, oracles_, std::move(outcome.best), /*whole=*/false);
    const uint64_t calls = outcome.oracle_calls;
    outcome = search.Run(effort, most);
    outcome.oracle_calls += calls;
    spent += search.spent();
    return !outcome.cancelled;
  }

  Outcome outcome;
  uint64_t spent = 0;

 private:
  Options options_;
  std::vector<std::unique_ptr<Oracle>>& oracles_;
};

}  // namespace

Outcome Search(const PlanRequest& job, const OracleFactory& factory, const Options& options) {
  // Up to three searches, each of which starts from the list of the one before: a short look at
  // every family, the space with one recompute for all stages, and the whole space. The first two
  // only lower the threshold of the last one, which alone determines counts, regions and bounds.
  CHECK(options.keep >= 1 && options.workers >= 1);
  std::vector<std::unique_ptr<Oracle>> oracles;
  for (size_t i = 0; i < options.workers; ++i) oracles.push_back(factory());
  PlanRequest uniform = job;
  uniform.recompute_by_stage = false;
  FirstSearches first(options, oracles);
  const uint64_t effort = options.effort;
  // Of a part of the effort, at least one layout; 0 is no limit.
  const auto part = [&](uint64_t share) {
    const uint64_t left = effort - std::min(effort, first.spent);
    return effort == 0 ? 0 : std::max<uint64_t>(1, left / share);
  };
  const bool in_two = job.recompute_by_stage && !job.fixed.recompute;
  if (!first.Run(in_two ? uniform : job, part(kShareOfLook), kLook)) return first.outcome;
  constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();
  if (in_two && !first.Run(uniform, part(kShareOfUniform), kAll)) return first.outcome;
  const Candidate smallest = first.outcome.smallest;
  TreeSearch search(job, options, oracles, std::move(first.outcome.best), /*whole=*/true);
  Outcome outcome = search.Run(part(1));
  outcome.oracle_calls += first.outcome.oracle_calls;
  if (outcome.best.empty() && smallest.memory_bytes < outcome.smallest.memory_bytes) {
    outcome.smallest = smallest;
  }
  return outcome;
}

}  // namespace longhaul::planner::search
