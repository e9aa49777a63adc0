#include "planner/search/proof.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/check.h"
#include "planner/search/internal/reach.h"
#include "planner/search/settings.h"

namespace longhaul::planner::search {
namespace {

using spec::Recompute;
using spec::Training;

constexpr size_t kRegionsATask = 512;
constexpr size_t kMostGaps = 10;
constexpr double kProofRounding = 1e-9;  // of sums in another order
constexpr int kSamples = 2;

bool IsTime(Rule rule) {
  return rule == Rule::kShapeTime || rule == Rule::kStagesTime || rule == Rule::kStatesTime ||
         rule == Rule::kRecomputeTime;
}

// What a region of this shape had to beat, in seconds of step.
double ToBeat(const Outcome& outcome, const Shape& shape, uint32_t keep) {
  const double longest = shape.gpus.longest_step_s;
  for (const Candidate& candidate : outcome.best) {
    const spec::Layout& layout = candidate.training.layout;
    if (layout.tensor == shape.tensor && layout.context == shape.context &&
        layout.pipeline == shape.pipeline && layout.data == shape.data &&
        layout.expert == shape.expert && layout.expert_tensor == shape.expert_tensor) {
      return std::min(longest, candidate.step_s);
    }
  }
  if (outcome.best.size() < keep) return longest;
  return std::min(longest, outcome.best.back().objective / shape.gpus.weight);
}

// A pseudo-random number that depends on the region alone.
uint64_t Mix(uint64_t seed) {
  seed += 0x9e3779b97f4a7c15;
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111eb;
  return seed ^ (seed >> 31);
}

template <typename T>
const T& Pick(const std::vector<T>& list, uint64_t& seed) {
  CHECK(!list.empty());
  seed = Mix(seed);
  return list[seed % list.size()];
}

// Checks the regions of one task. A region's bound is computed again from its training, compared
// with the final best, and compared with sampled layouts of the region. The samples depend on the
// region's number alone, so the result is the same with any number of threads.
class Prover {
 public:
  Prover(const PlanRequest& job, Oracle& oracle, const std::vector<Shape>& shapes,
         const Outcome& outcome, uint32_t keep)
      : job_(job),
        oracle_(oracle),
        reach_(job),
        shapes_(shapes),
        outcome_(outcome),
        keep_(keep),
        limit_(MemoryLimit(job)) {}

  void Check(const Region& region, uint64_t number) {
    const Shape& shape = shapes_[region.shape];
    Enter(region, shape);
    if (region.rule == Rule::kFramework) {
      CheckFramework(region);
    } else if (region.rule == Rule::kDominated) {
      CheckDominated(region, number);
    } else if (IsTime(region.rule)) {
      CheckTime(region, shape, number);
    } else {
      CheckMemory(region, shape, number);
    }
  }

  std::vector<std::string> gaps;
  uint64_t audited = 0;

 private:
  // The lists below a region, remembered as neighbouring regions share them.
  void Enter(const Region& region, const Shape& shape) {
    if (shape_ != region.shape) {
      states_ = StateChoices(job_, shape);
      orders_ = Orders(job_, shape);
      recomputes_ = RecomputeChoices(job_, shape);
      shape_ = region.shape;
    }
  }
  void Gap(const Region& region, const std::string& what) {
    if (gaps.size() >= kMostGaps) return;
    gaps.push_back(LayoutText(region.training) + " (" + std::string(ToString(region.rule)) +
                   "): " + what);
  }

  double TimeBound(const Region& region, double enough) {
    switch (region.rule) {
      case Rule::kShapeTime:
        return oracle_.ShapeBound(region.training);
      case Rule::kStagesTime:
        return oracle_.StagesBound(region.training);
      case Rule::kStatesTime:
        return oracle_.StatesBound(region.training);
      default:
        return oracle_.RecomputeBound(region.training, enough);
    }
  }

  // A point of the region: free choices picked by the seed. Nothing where what was picked leaves
  // no choice further down.
  std::optional<Training> Point(const Region& region, const Shape& shape, uint64_t& seed) {
    const Rule rule = region.rule;
    if (rule == Rule::kRecomputeTime) return Heavier(region, seed);
    Training training = region.training;
    if (rule == Rule::kStatesMemory) {
      training.batch.micro = Pick(MicroBatches(job_, shape), seed);
    }
    if (rule == Rule::kStatesMemory || rule == Rule::kShapeTime) {
      const std::vector<Stages>& choices = stages_.Of(job_, shape, training.batch.micro);
      if (choices.empty()) return std::nullopt;
      Apply(Pick(choices, seed), training);
    }
    if (rule == Rule::kStatesTime) training.offload = Pick(states_, seed).offload;
    if (rule == Rule::kShapeTime || rule == Rule::kStagesTime) {
      Apply(Pick(states_, seed), training);
    }
    if (rule != Rule::kMemory) {
      Set(Pick(recomputes_, seed), training);
    } else if (region.points > orders_.size()) {
      seed = Mix(seed);
      training.recompute.full_layers =
          1 + static_cast<uint32_t>(seed % training.recompute.full_layers);
    }
    training.layout.order = Pick(orders_, seed);
    // Bounds are of what may be proposed.
    if (!reach_.IsReached(training)) return std::nullopt;
    return training;
  }

  void Set(const Recompute& recompute, Training& training) const {
    training.recompute = recompute;
    const bool by_stage = recompute.kind == spec::RecomputeKind::kByStage;
    training.stage_recompute =
        by_stage ? job_.fixed.stage_recompute : std::vector<spec::RecomputeRun>{};
  }

  void CheckTime(const Region& region, const Shape& shape, uint64_t number) {
    const double to_beat = ToBeat(outcome_, shape, keep_);
    const double bound = TimeBound(region, std::max(to_beat, region.bound));
    if (bound < region.bound * (1 - kProofRounding))
      Gap(region, "the bound is lower computed again");
    // Written as a negation, so that a NaN is reported too.
    if (!(bound >= to_beat * (1 - kProofRounding))) {
      Gap(region, "its bound of " + std::to_string(bound) + " s is below the best");
    }
    uint64_t seed = number;
    for (int i = 0; i < kSamples; ++i) {
      const std::optional<Training> point = Point(region, shape, seed);
      if (!point) continue;
      ++audited;
      const double step = oracle_.StepSeconds(*point);
      if (step < bound * (1 - kProofRounding)) {
        Gap(region, LayoutText(*point) + " takes " + std::to_string(step) +
                        " s, below the bound of " + std::to_string(bound) + " s");
      }
    }
  }

  void CheckMemory(const Region& region, const Shape& shape, uint64_t number) {
    const bool fits = region.rule == Rule::kStatesMemory
                          ? oracle_.StatesMemoryBound(region.training) <= limit_
                      : region.rule == Rule::kAnyMemory ? oracle_.MayFit(region.training)
                                                        : oracle_.Fits(region.training);
    if (fits) Gap(region, "it fits");
    uint64_t seed = number;
    // Where only the order is free one sample will do: memory does not look at it.
    const bool one = region.rule == Rule::kMemory && region.points <= orders_.size();
    const int samples = one ? 1 : kSamples;
    for (int i = 0; i < samples; ++i) {
      const std::optional<Training> point = Point(region, shape, seed);
      if (!point) continue;
      ++audited;
      if (oracle_.Fits(*point)) Gap(region, "a layout in it fits");
    }
  }

  // What stands in the region must fit, and one that joined it must not be faster.
  void CheckDominated(const Region& region, uint64_t number) {
    if (!oracle_.Fits(region.training)) {
      Gap(region, "what should fit in place does not");
    }
    uint64_t seed = number;
    Training lighter = region.training;
    const Training heavier = Heavier(region, seed);
    lighter.layout.order = heavier.layout.order;
    ++audited;
    if (oracle_.StepSeconds(heavier) < oracle_.StepSeconds(lighter) * (1 - kProofRounding)) {
      Gap(region, "a layout in it is faster than the one with less recompute");
    }
  }

  // The region's training, or one with a heavier recompute or offload, in some order. What each
  // stage needs by itself is less with offload, so those stand alone.
  Training Heavier(const Region& region, uint64_t& seed) {
    Training training = region.training;
    training.layout.order = Pick(orders_, seed);
    if (training.recompute.kind == spec::RecomputeKind::kByStage) return training;
    const Recompute recompute = Pick(recomputes_, seed);
    if (IsLighter(training.recompute, recompute)) Set(recompute, training);
    const States states = Pick(states_, seed);
    if (training.offload == spec::Offload::kNone) training.offload = states.offload;
    return training;
  }

  void CheckFramework(const Region& region) {
    // A region with more points than orders has all recomputes: the search rejected it by the first
    // and the last one, and here all of them are checked.
    std::vector<Recompute> recomputes = {region.training.recompute};
    if (region.points > orders_.size()) {
      recomputes = recomputes_;
    }
    Training training = region.training;
    for (const Recompute& recompute : recomputes) {
      training.recompute = recompute;
      if (reach_.IsReached(training)) return Gap(region, "a framework has options for it");
    }
  }

  const PlanRequest& job_;
  Oracle& oracle_;
  internal::Reachable reach_;
  const std::vector<Shape>& shapes_;
  const Outcome& outcome_;
  const uint32_t keep_;
  const int64_t limit_;
  StageLists stages_;
  std::optional<uint32_t> shape_;
  std::vector<States> states_;
  std::vector<Recompute> recomputes_;
  std::vector<spec::PlacementOrder> orders_;
};

}  // namespace

Proof Prove(const PlanRequest& job, const OracleFactory& factory, const Outcome& outcome,
            const Options& options) {
  // The sum of all regions and evaluated points must equal the number of points, which is counted
  // independently by the sizes of the lists.
  CHECK(!outcome.cancelled && !outcome.limited);
  Proof proof;
  proof.space_points = CountPoints(job);
  proof.regions = outcome.pruned.size();
  proof.covered_points = outcome.points[static_cast<size_t>(Rule::kEvaluated)];
  for (const Region& region : outcome.pruned) proof.covered_points += region.points;
  const std::vector<Shape> shapes = Shapes(job);
  std::vector<std::unique_ptr<Oracle>> oracles;
  for (size_t i = 0; i < options.workers; ++i) oracles.push_back(factory());
  const size_t tasks = (outcome.pruned.size() + kRegionsATask - 1) / kRegionsATask;
  std::vector<std::unique_ptr<Prover>> provers(tasks);
  const auto task = [&](size_t worker, size_t index) {
    auto prover = std::make_unique<Prover>(job, *oracles[worker], shapes, outcome, options.keep);
    const size_t end = std::min(outcome.pruned.size(), (index + 1) * kRegionsATask);
    for (size_t i = index * kRegionsATask; i < end; ++i) prover->Check(outcome.pruned[i], i);
    provers[index] = std::move(prover);
  };
  if (options.execute) {
    options.execute(tasks, task);
  } else {
    for (size_t i = 0; i < tasks; ++i) task(0, i);
  }
  for (const auto& prover : provers) {
    proof.audited_points += prover->audited;
    for (const std::string& gap : prover->gaps) {
      if (proof.gaps.size() < kMostGaps) proof.gaps.push_back(gap);
    }
  }
  return proof;
}

}  // namespace longhaul::planner::search
