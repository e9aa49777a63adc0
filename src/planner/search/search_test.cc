#include "planner/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>

#include "planner/search/proof.h"
#include "planner/search/random_job_testing.h"

namespace longhaul::planner::search::search_test {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Walks the whole space.
struct Walked {
  Candidate best;
  uint64_t points = 0;
};

Walked Walk(const PlanRequest& job) {
  Walked walked;
  walked.best.objective = kNever;
  const auto oracle = EvaluatorOracle(job)();
  const int64_t limit = MemoryLimit(job);
  ForEachPoint(job, [&](const Shape& shape, const spec::Training& training) {
    ++walked.points;
    const double step_s = oracle->StepSeconds(training);
    const double objective = step_s * shape.gpus.weight;
    if (objective >= walked.best.objective || step_s > shape.gpus.longest_step_s) return;
    if (oracle->MemoryBytes(training) > limit) return;
    walked.best = {training, step_s, 0, objective};
  });
  return walked;
}

TEST(Search, FindsWhatWalkingTheWholeSpaceFinds) {
  int feasible = 0;
  int pruned = 0;
  int several_counts = 0;
  int fewer_gpus = 0;
  for (uint64_t seed = 1; seed <= 14; ++seed) {
    const PlanRequest job = RandomJob(seed);
    const Walked walked = Walk(job);
    Options options;
    options.keep = 1;
    const Outcome outcome = Search(job, EvaluatorOracle(job), options);
    ASSERT_EQ(outcome.total_points(), walked.points) << "seed " << seed;
    ASSERT_EQ(outcome.best.empty(), walked.best.objective == kNever) << "seed " << seed;
    if (job.gpus.size() > 1) ++several_counts;
    if (outcome.best.empty()) continue;
    ++feasible;
    if (outcome.points[0] < walked.points) ++pruned;
    EXPECT_DOUBLE_EQ(outcome.best[0].objective, walked.best.objective) << "seed " << seed;
    fewer_gpus += outcome.best[0].training.layout.devices() < job.cluster.devices ? 1 : 0;
  }
  EXPECT_GE(several_counts, 5);
  EXPECT_GE(fewer_gpus, 1);
  // The seeds cover what the test is for.
  EXPECT_GE(feasible, 8);
  EXPECT_GE(pruned, 8);
}

TEST(Search, ListsTheBestOfEachFamily) {
  const PlanRequest job = RandomJob(5);
  const auto oracle = EvaluatorOracle(job)();
  std::vector<double> families;
  Shape last;
  double best = kNever;
  bool first = true;
  ForEachPoint(job, [&](const Shape& shape, const spec::Training& training) {
    if (!first && !shape.SameFamily(last)) {
      if (best < kNever) families.push_back(best);
      best = kNever;
    }
    first = false;
    last = shape;
    const double step_s = oracle->StepSeconds(training) * shape.gpus.weight;
    if (step_s < best && oracle->MemoryBytes(training) <= MemoryLimit(job)) best = step_s;
  });
  if (best < kNever) families.push_back(best);
  std::sort(families.begin(), families.end());
  const Outcome outcome = Search(job, EvaluatorOracle(job));
  ASSERT_EQ(outcome.best.size(), std::min<size_t>(5, families.size()));
  for (size_t i = 0; i < outcome.best.size(); ++i) {
    EXPECT_DOUBLE_EQ(outcome.best[i].objective, families[i]) << i;
  }
}

TEST(Bounds, AreNeverAboveWhatTheyBound) {
  uint64_t checked = 0;
  uint64_t may_not_fit = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const PlanRequest job = RandomJob(seed);
    const auto oracle = EvaluatorOracle(job)();
    uint64_t count = 0;
    const uint64_t every = std::max<uint64_t>(1, CountPoints(job) / 250);
    ForEachPoint(job, [&](const Shape& shape, const spec::Training& training) {
      if (count++ % every != 0) return;
      ++checked;
      const double step = oracle->StepSeconds(training) * (1 + 1e-9);
      spec::Training part = training;
      part.layout.order = spec::kUsualOrder;
      const double recompute = oracle->RecomputeBound(part, kNever);
      const double early = oracle->RecomputeBound(part, step / 2);
      part.recompute = {};
      const double states = oracle->StatesBound(part);
      const int64_t memory = oracle->MemoryBytes(training);
      EXPECT_LE(oracle->StatesMemoryBound(part), memory) << "seed " << seed;
      const bool fits = memory <= MemoryLimit(job);
      EXPECT_EQ(oracle->Fits(training), fits) << "seed " << seed;
      EXPECT_GE(oracle->MayFit(part), fits) << "seed " << seed;
      may_not_fit += oracle->MayFit(part) ? 0 : 1;
      Apply(States{}, part);
      const double stages = oracle->StagesBound(part);
      Apply(Stages{}, part);
      const double of_shape = oracle->ShapeBound(part);
      EXPECT_LE(recompute, step) << "seed " << seed << " point " << count;
      EXPECT_LE(early, step) << "seed " << seed << " point " << count;
      EXPECT_LE(states, step) << "seed " << seed << " point " << count;
      EXPECT_LE(stages, step) << "seed " << seed << " point " << count;
      EXPECT_LE(of_shape, step) << "seed " << seed << " point " << count << " tensor "
                                << shape.tensor << " pipeline " << shape.pipeline;
    });
  }
  EXPECT_GT(checked, 5000u);
  EXPECT_GT(may_not_fit, 100u);
}

// A real pool, so that families finish in any order.
std::function<void(size_t, const Options::Task&)> TwoThreads() {
  return [](size_t count, const Options::Task& task) {
    std::atomic<size_t> next = 0;
    const auto work = [&](size_t worker) {
      for (size_t i = next++; i < count; i = next++) task(worker, i);
    };
    std::thread other([&] { work(1); });
    work(0);
    other.join();
  };
}

TEST(Oracles, RememberPartsWithoutChangingAnswers) {
  uint64_t checked = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const PlanRequest job = RandomJob(seed);
    const OracleFactory factory = EvaluatorOracle(job);
    const auto asked_before = factory();
    uint64_t count = 0;
    const uint64_t every = std::max<uint64_t>(1, CountPoints(job) / 60);
    ForEachPoint(job, [&](const Shape&, const spec::Training& training) {
      if (count++ % every != 0) return;
      ++checked;
      const auto fresh = factory();
      EXPECT_EQ(asked_before->StepSeconds(training), fresh->StepSeconds(training))
          << "seed " << seed << " point " << count;
      EXPECT_EQ(asked_before->MemoryBytes(training), fresh->MemoryBytes(training))
          << "seed " << seed << " point " << count;
    });
  }
  EXPECT_GT(checked, 500u);
}

TEST(Search, IsTheSameOnAnyNumberOfThreads) {
  const PlanRequest job = RandomJob(8);
  const Outcome alone = Search(job, EvaluatorOracle(job));
  Options options;
  options.execute = TwoThreads();
  options.workers = 2;
  const Outcome together = Search(job, EvaluatorOracle(job), options);
  EXPECT_EQ(alone.points, together.points);
  EXPECT_EQ(alone.oracle_calls, together.oracle_calls);
  ASSERT_EQ(alone.best.size(), together.best.size());
  for (size_t i = 0; i < alone.best.size(); ++i) {
    EXPECT_EQ(alone.best[i].step_s, together.best[i].step_s);
    EXPECT_EQ(alone.best[i].training.layout, together.best[i].training.layout);
  }
}

Outcome WithRegions(const PlanRequest& job) {
  Options options;
  options.keep_regions = true;
  return Search(job, EvaluatorOracle(job), options);
}

TEST(Proof, HoldsForWhatTheSearchPruned) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const PlanRequest job = RandomJob(seed);
    const Outcome outcome = WithRegions(job);
    const Proof proof = Prove(job, EvaluatorOracle(job), outcome);
    EXPECT_TRUE(proof.holds()) << "seed " << seed << ": "
                               << (proof.gaps.empty() ? "" : proof.gaps[0]);
    EXPECT_EQ(proof.space_points, outcome.total_points());
    EXPECT_GT(proof.audited_points, 0u);
  }
}

TEST(Proof, SeesARegionThatWasNotRecorded) {
  const PlanRequest job = RandomJob(2);
  Outcome outcome = WithRegions(job);
  ASSERT_FALSE(outcome.pruned.empty());
  outcome.pruned.pop_back();
  EXPECT_FALSE(Prove(job, EvaluatorOracle(job), outcome).holds());
}

// Bounds that are too high prune what is best; the audit of the regions sees it.
class TooHigh : public Oracle {
 public:
  explicit TooHigh(std::unique_ptr<Oracle> real) : real_(std::move(real)) {}
  bool Choose(spec::Training& t, double enough) override { return real_->Choose(t, enough); }
  double StepSeconds(const spec::Training& t) override { return real_->StepSeconds(t); }
  int64_t MemoryBytes(const spec::Training& t) override { return real_->MemoryBytes(t); }
  bool Fits(const spec::Training& t) override { return real_->Fits(t); }
  bool MayFit(const spec::Training& t) override { return real_->MayFit(t); }
  double ShapeBound(const spec::Training& t) override { return 30 * real_->ShapeBound(t); }
  double StagesBound(const spec::Training& t) override { return real_->StagesBound(t); }
  double StatesBound(const spec::Training& t) override { return real_->StatesBound(t); }
  double RecomputeBound(const spec::Training& t, double enough) override {
    return real_->RecomputeBound(t, enough);
  }
  int64_t StatesMemoryBound(const spec::Training& t) override {
    return real_->StatesMemoryBound(t);
  }

 private:
  std::unique_ptr<Oracle> real_;
};

TEST(Proof, SeesBoundsThatAreTooHigh) {
  const PlanRequest job = RandomJob(2);
  const OracleFactory real = EvaluatorOracle(job);
  const OracleFactory factory = [&real] { return std::make_unique<TooHigh>(real()); };
  Options options;
  options.keep = 1;
  options.keep_regions = true;
  const Outcome outcome = Search(job, factory, options);
  ASSERT_GT(outcome.points[static_cast<size_t>(Rule::kShapeTime)], 0u);
  EXPECT_FALSE(Prove(job, factory, outcome, options).holds());
}

TEST(Search, OfACalibratedMachineRestsOnItsFigures) {
  PlanRequest job = RandomJob(2);
  job.reach = Reach::kEverything;
  Options options;
  options.keep = 1;
  const Outcome shipped = Search(job, EvaluatorOracle(job), options);
  ASSERT_FALSE(shipped.best.empty());
  // The GPU as it is shipped, given as a machine of one's own: nothing changes. At half its rates
  // the same layout takes longer, and the search finds what walking the space finds.
  job.machine = {ShippedMatrix(job.cluster.device), ShippedLinks(job.cluster),
                 StackOf(job.base.software)};
  EXPECT_EQ(Search(job, EvaluatorOracle(job), options).best[0].step_s, shipped.best[0].step_s);
  for (MatmulConstants& product : job.machine->matrix.products) {
    product.sustained_flops_per_s /= 2;
  }
  job.machine->matrix.attention.forward_flops_per_s /= 2;
  const Outcome slower = Search(job, EvaluatorOracle(job), options);
  EXPECT_GT(slower.best[0].step_s, 1.01 * shipped.best[0].step_s);
  EXPECT_EQ(slower.best[0].step_s, Walk(job).best.step_s);
}

TEST(Search, ProposesOnlyWhatAFrameworkCanRun) {
  PlanRequest job = RandomJob(4);
  job.reach = Reach::kOneFramework;
  job.recompute_by_stage = false;
  for (const flags::Framework framework :
       {flags::Framework::kMegatron, flags::Framework::kTorchtitan, flags::Framework::kDeepSpeed}) {
    job.framework = framework;
    const Outcome outcome = WithRegions(job);
    const Proof proof = Prove(job, EvaluatorOracle(job), outcome);
    EXPECT_TRUE(proof.holds()) << (proof.gaps.empty() ? "" : proof.gaps[0]);
    for (const Candidate& candidate : outcome.best) {
      const Question question{job.model, job.cluster, candidate.training};
      EXPECT_EQ(flags::CheckExpressible(framework, question), Status());
    }
  }
}

TEST(Search, TellsTheSmallestWhereNothingFits) {
  PlanRequest job = RandomJob(2);
  job.cluster.device.memory = Bytes(1 << 20);
  const Outcome outcome = Search(job, EvaluatorOracle(job));
  EXPECT_TRUE(outcome.best.empty());
  EXPECT_GT(outcome.smallest.memory_bytes, 1 << 20);
}

// A limit of effort never loses a point, and what it leaves has a bound that holds.
TEST(Search, EndsAtItsEffortWithABoundThatHolds) {
  int limited = 0;
  int improvable = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const PlanRequest job = RandomJob(seed);
    Options options;
    options.keep = 2;
    const Outcome all = Search(job, EvaluatorOracle(job), options);
    EXPECT_EQ(all.gap(), 0) << "seed " << seed;
    for (const uint64_t effort : {1, 20, 100, 400, 1'500, 10'000}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " effort " + std::to_string(effort));
      options.effort = effort;
      const Outcome part = Search(job, EvaluatorOracle(job), options);
      EXPECT_EQ(part.total_points(), all.total_points());
      EXPECT_EQ(part.limited, part.points[static_cast<size_t>(Rule::kNotSearched)] > 0);
      limited += part.limited ? 1 : 0;
      if (all.best.empty()) {
        EXPECT_TRUE(part.best.empty());
        continue;
      }
      const double optimum = all.best[0].objective;
      if (!part.limited) {
        ASSERT_FALSE(part.best.empty());
        EXPECT_DOUBLE_EQ(part.best[0].objective, optimum);
        continue;
      }
      if (part.best.empty()) {
        EXPECT_LE(part.open_bound, optimum * (1 + 1e-9));
        continue;
      }
      EXPECT_GE(part.best[0].objective, optimum * (1 - 1e-9));
      EXPECT_LE(part.best[0].objective * (1 - part.gap()), optimum * (1 + 1e-9));
      improvable += part.best[0].objective > 1.0001 * optimum ? 1 : 0;
    }
  }
  EXPECT_GT(limited, 40);
  EXPECT_GT(improvable, 5);
}

// One family can hold most of a space, so the limit also holds within a family. The part that is
// searched at the least effort is what families look at before they ask: 0.35 of these small
// spaces, and 0.57 where no family ends early.
TEST(Search, EndsAtItsEffortWithinAFamily) {
  double share = 0;
  constexpr int kJobs = 10;
  for (uint64_t seed = 1; seed <= kJobs; ++seed) {
    const PlanRequest job = RandomJob(seed);
    Options options;
    const Outcome all = Search(job, EvaluatorOracle(job), options);
    options.effort = 100;
    const Outcome part = Search(job, EvaluatorOracle(job), options);
    EXPECT_TRUE(part.limited) << "seed " << seed;
    share += static_cast<double>(part.oracle_calls) / static_cast<double>(all.oracle_calls);
  }
  EXPECT_LT(share / kJobs, 0.45);
}

TEST(Search, EndsAtItsEffortAlikeOnAnyNumberOfThreads) {
  const PlanRequest job = RandomJob(8);
  Options options;
  options.effort = 300;
  const Outcome alone = Search(job, EvaluatorOracle(job), options);
  options.execute = TwoThreads();
  options.workers = 2;
  const Outcome together = Search(job, EvaluatorOracle(job), options);
  EXPECT_TRUE(alone.limited);
  EXPECT_EQ(alone.points, together.points);
  EXPECT_EQ(alone.open_bound, together.open_bound);
  ASSERT_EQ(alone.best.size(), together.best.size());
  for (size_t i = 0; i < alone.best.size(); ++i) {
    EXPECT_EQ(alone.best[i].step_s, together.best[i].step_s);
  }
}

// The best so far never gets worse, and its gap reaches down to the optimum at every moment.
TEST(Search, TellsABestAndAGapThatHold) {
  int reported = 0;
  for (uint64_t seed = 1; seed <= 14; ++seed) {
    const PlanRequest job = RandomJob(seed);
    const Outcome all = Search(job, EvaluatorOracle(job));
    if (all.best.empty()) continue;
    double last = kNever;
    Options options;
    options.progress = [&](const Standing& standing) {
      if (standing.best == nullptr) return true;
      ++reported;
      EXPECT_LE(standing.best->objective, last) << "seed " << seed;
      last = standing.best->objective;
      EXPECT_GE(last, all.best[0].objective * (1 - 1e-9)) << "seed " << seed;
      EXPECT_LE(last * (1 - standing.gap), all.best[0].objective * (1 + 1e-9)) << "seed " << seed;
      return true;
    };
    Search(job, EvaluatorOracle(job), options);
    EXPECT_GE(last, all.best[0].objective * (1 - 1e-9));
  }
  EXPECT_GT(reported, 10);
}

TEST(Search, EndsWhenItsClockHasExpired) {
  const PlanRequest job = RandomJob(2);
  Options options;
  options.expired = [] { return true; };
  const Outcome outcome = Search(job, EvaluatorOracle(job), options);
  EXPECT_TRUE(outcome.limited);
  EXPECT_FALSE(outcome.cancelled);
  EXPECT_EQ(outcome.gap(), 1);
}

TEST(Search, StopsOnRequest) {
  const PlanRequest job = RandomJob(2);
  Options options;
  options.progress = [](const Standing&) { return false; };
  EXPECT_TRUE(Search(job, EvaluatorOracle(job), options).cancelled);
}

}  // namespace
}  // namespace longhaul::planner::search::search_test
