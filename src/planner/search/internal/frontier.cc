// The Pareto front: one search a number of GPUs and share of memory left free.
#include <algorithm>
#include <array>

#include "planner/search/internal/never.h"
#include "planner/search/internal/surroundings.h"
#include "planner/search/settings.h"

namespace longhaul::planner::search::internal {
namespace {

// Memory left free, of the largest count and of the best one's.
constexpr double kHeadrooms[] = {0.3, 0.5};
// Without a range of one's own: from this share of the cluster, in powers of two.
constexpr uint32_t kSmallestShare = 32;

// Without a price or a length of the run, GPU-seconds of a step stand for money and the step for
// time. Only ratios are compared, so the unit does not matter.
double Dollars(const Proposal& proposal) {
  return proposal.run ? proposal.run->dollars.expected
                      : proposal.evaluation.step.count() * proposal.cluster.devices;
}

double Time(const Proposal& proposal) {
  return proposal.run ? proposal.run->days.expected : proposal.evaluation.step.count();
}

// Whether `a` is at least as good in everything and better in something.
bool Beats(const Proposal& a, const Proposal& b) {
  constexpr double kEqual = 1e-6;
  const std::array<std::pair<double, double>, 3> figures = {
      {{Time(a), Time(b)}, {Dollars(a), Dollars(b)}, {a.memory_share, b.memory_share}}};
  // Differences within a millionth count as equal; otherwise rounding alone would keep a point.
  bool better = false;
  for (const auto& [of_a, of_b] : figures) {
    if (of_a > of_b * (1 + kEqual)) return false;
    better = better || of_a < of_b * (1 - kEqual);
  }
  return better;
}

bool Same(const Proposal& a, const Proposal& b) {
  return a.cluster.devices == b.cluster.devices && LayoutText(a.training) == LayoutText(b.training);
}

class Frontier {
 public:
  Frontier(const Plan& plan, const PlanOptions& options) : plan_(plan), options_(options) {
    for (const GpuCount& gpus : CountsOf(plan.job)) counts_.push_back(gpus.devices);
    if (counts_.size() == 1) {
      const uint32_t devices = counts_.front();
      counts_.clear();
      for (uint32_t share = kSmallestShare; share > 0; share /= 2) {
        spec::DeviceCluster part = plan.job.cluster;
        part.devices = devices / share;
        const bool whole = devices % share == 0 && spec::CheckDeviceCluster(part).ok();
        if (whole) counts_.push_back(part.devices);
      }
    }
    roomy_ = {counts_.back()};
    const uint32_t of_best = plan.best.front().cluster.devices;
    if (of_best != counts_.back()) roomy_.push_back(of_best);
    for (const Proposal& proposal : plan.best) points_.push_back({proposal, plan.job.headroom});
  }

  void Walk() {
    // Fewer GPUs cost less: more of them must be faster than any fewer.
    double longest = kNever;
    for (const uint32_t devices : counts_) {
      // The plan's own search was of this count alone.
      const std::vector<GpuCount> own = CountsOf(plan_.job);
      const bool searched =
          own.size() == 1 && devices == own.front().devices && !plan_.job.fixed.data;
      if (searched) {
        ++done_;
      } else {
        Visit(devices, plan_.job.headroom, longest);
      }
    }
    for (const double headroom : kHeadrooms) {
      if (headroom <= plan_.job.headroom) continue;
      for (const uint32_t devices : roomy_) {
        longest = kNever;
        Visit(devices, headroom, longest);
      }
    }
  }

  // Quadratic in the points, of which there are one for each search. Of equal points the first is
  // kept.
  std::vector<FrontierPoint> Kept() const {
    std::vector<FrontierPoint> kept;
    for (size_t i = 0; i < points_.size(); ++i) {
      bool beaten = false;
      for (size_t k = 0; k < points_.size() && !beaten; ++k) {
        const bool twin = k < i && Same(points_[k].proposal, points_[i].proposal);
        beaten = twin || (k != i && Beats(points_[k].proposal, points_[i].proposal));
      }
      if (!beaten) kept.push_back(points_[i]);
    }
    std::stable_sort(kept.begin(), kept.end(), [](const FrontierPoint& a, const FrontierPoint& b) {
      return Time(a.proposal) < Time(b.proposal);
    });
    return kept;
  }

  Proof proof;

 private:
  // A layout found elsewhere, with as many replicas as fill these GPUs, is a step that the best
  // one here need not exceed: the search prunes by it from its first family on.
  double KnownStep(const PlanRequest& job, Oracle& oracle, double longest) const {
    const uint32_t devices = job.gpus.front().devices;
    spec::DeviceCluster cluster = job.cluster;
    cluster.devices = devices;
    double known = longest;
    for (const FrontierPoint& point : points_) {
      spec::Training training = point.proposal.training;
      spec::Layout& layout = training.layout;
      const uint64_t copies = uint64_t{layout.tensor} * layout.pipeline * layout.context;
      if (devices % copies != 0) continue;
      layout.data = static_cast<uint32_t>(devices / copies);
      training.stage_recompute.clear();
      if (!spec::CheckTraining(job.model, cluster, training).ok()) continue;
      const bool by_stage = training.recompute.kind == spec::RecomputeKind::kByStage;
      if (by_stage && !oracle.Choose(training, known)) continue;
      const double step_s = oracle.StepSeconds(training);
      if (step_s < known && oracle.MemoryBytes(training) <= MemoryLimit(job)) known = step_s;
    }
    return known;
  }

  void Visit(uint32_t devices, double headroom, double& longest) {
    if (cancelled_) return;
    PlanRequest job = plan_.job;
    job.gpus = {GpuCount{devices, 1, longest}};
    job.headroom = headroom;
    job.fixed.devices.reset();
    job.fixed.data.reset();
    const OracleFactory oracle = EvaluatorOracle(job);
    job.gpus.front().longest_step_s = KnownStep(job, *oracle(), longest);
    const double known = job.gpus.front().longest_step_s;
    // A known layout need not be one of this job's space: then nothing there is as fast.
    if (!SearchOne(job, oracle, known < longest, longest)) {
      job.gpus.front().longest_step_s = longest;
      SearchOne(job, oracle, false, longest);
    }
    ++done_;
  }

  // Keeps and proves the result of a search; its step becomes the longest for larger counts. False
  // where it found nothing and may be called `again`.
  bool SearchOne(const PlanRequest& job, const OracleFactory& oracle, bool again, double& longest) {
    Options search = options_.search;
    search.keep = 1;
    search.keep_regions = options_.prove;
    if (search.progress) {
      search.progress = [this](const Standing& standing) {
        const size_t searches = counts_.size() + roomy_.size() * std::size(kHeadrooms);
        Standing of_all;  // of the plan's best, which is found
        of_all.share = kShareOfFirst + (1 - kShareOfFirst) * (done_ + standing.share) /
                                           static_cast<double>(searches);
        return options_.search.progress(of_all);
      };
    }
    const Outcome outcome = Search(job, oracle, search);
    cancelled_ = outcome.cancelled;
    if (cancelled_) return true;
    if (outcome.best.empty() && again) return false;
    if (options_.prove) Add(Prove(job, oracle, outcome, search));
    if (outcome.best.empty()) return true;
    const spec::Training& training = outcome.best.front().training;
    longest = outcome.best.front().step_s;
    points_.push_back({Propose(job, ClusterOf(job, training), training, options_), job.headroom});
    return true;
  }

  void Add(const Proof& of_one) {
    proof.space_points += of_one.space_points;
    proof.covered_points += of_one.covered_points;
    proof.regions += of_one.regions;
    proof.audited_points += of_one.audited_points;
    proof.gaps.insert(proof.gaps.end(), of_one.gaps.begin(), of_one.gaps.end());
  }

  const Plan& plan_;
  const PlanOptions& options_;
  std::vector<uint32_t> counts_;
  std::vector<uint32_t> roomy_;  // counts that are searched with more memory left free
  std::vector<FrontierPoint> points_;
  double done_ = 0;
  bool cancelled_ = false;
};

}  // namespace

void AddFrontier(const PlanOptions& options, Plan& plan) {
  Frontier frontier(plan, options);
  frontier.Walk();
  plan.frontier = frontier.Kept();
  if (options.prove) plan.frontier_proof = frontier.proof;
}

}  // namespace longhaul::planner::search::internal
