// The answer to "what would it take": the best layouts with all figures, and what surrounds them.
//
// Pure: a job and what a user wants to know go in, everything that tables, JSON and the page show
// comes out. Times of the pipeline are of a simulated schedule (time/simulate.h), short enough to
// be drawn: of a long step only as many micro-batches as show filling, steady state and draining.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/case.h"
#include "planner/run.h"
#include "planner/search/proof.h"
#include "planner/time/simulate.h"

namespace longhaul::planner::search {

struct PlanOptions;

struct Proposal {
  spec::Training training;
  spec::DeviceCluster cluster;
  Evaluation evaluation;
  StepBand band;
  std::optional<RunEstimate> run;            // with tokens to train on
  std::vector<flags::Framework> frameworks;  // that have options for it
  double memory_share = 0;                   // of the GPU, as nvidia-smi shows
};

// What a layout whose stages recompute each by itself becomes with one choice for all of them, as
// frameworks have it: the fastest that fits, that `framework` (or some one) has options for.
std::optional<Proposal> NearestUniform(const PlanRequest& job, const Proposal& proposal,
                                       std::optional<flags::Framework> framework,
                                       const PlanOptions& options);

// A proposal that no other beats in time, money and memory left free at once.
struct FrontierPoint {
  Proposal proposal;
  double headroom_asked = 0;
};

// What the step would take with one input changed to both sides.
struct Influence {
  std::string what;  // "network 25 % slower / faster"
  double low = 0;    // tokens/s of the whole cluster relative to now, -0.1: 10 % fewer
  double high = 0;
};

// Bytes of one stage over the drawn part of the step.
struct MemoryCurve {
  uint32_t stage = 0;
  std::vector<std::pair<double, double>> points;  // seconds, bytes
};

struct Timeline {
  std::vector<PipelineTask> tasks;
  std::vector<MemoryCurve> memory;
  uint32_t micro_batches = 0;  // drawn
  double seconds = 0;
};

// Why nothing is proposed: the first of these that no layout passes.
enum class Cause {
  kNotLegal,            // what is fixed, the batch and the GPUs allow no layout
  kMemory,              // none fits the GPU
  kFramework,           // some fit, and none of them is one that a framework has options for
  kDeadline,            // some fit and can be run, and all take too long
  kBudget,              // likewise, all cost too much
  kDeadlineAndBudget,   // all take too long, and all cost too much
  kDeadlineWithBudget,  // some meet the deadline and some the budget, and none meets both
  kNotFound,            // the search ended at its limit before it found any
};

struct Obstacle {
  Cause cause = Cause::kMemory;
  // Of a deadline or a budget: the fastest and, where the GPU has a price, the cheapest layouts
  // that fit.
  std::optional<Proposal> fastest;
  std::optional<Proposal> cheapest;
  std::optional<Proposal> beyond_frameworks;  // of kFramework: the best that fits
  Candidate smallest;                         // of kMemory: needs least of those looked at
};

struct Plan {
  PlanRequest job;
  double tokens = 0;
  Outcome outcome;
  std::optional<Proof> proof;
  std::vector<Proposal> best;
  std::optional<Obstacle> obstacle;  // where nothing is best and the search was not cancelled
  std::vector<FrontierPoint> frontier;
  std::optional<Proof> frontier_proof;  // of all its searches together
  std::vector<Influence> influences;    // largest first
  // Of the best, where its stages recompute each by itself.
  std::optional<Proposal> uniform;
  std::optional<Timeline> timeline;  // of the best; not for DualPipe
};

struct PlanOptions {
  double tokens = 0;  // 0: no days, no money
  RunFacts run;
  Options search;
  bool prove = false;
  bool surroundings = false;  // frontier, influences, timeline
};

// Of a cancelled search the best so far, without proof and surroundings.
Plan MakePlan(const PlanRequest& job, const PlanOptions& options);

// The job's cluster with as many GPUs as the layout takes.
spec::DeviceCluster ClusterOf(const PlanRequest& job, const spec::Training& training);

Proposal Propose(const PlanRequest& job, const spec::DeviceCluster& cluster,
                 const spec::Training& training, const PlanOptions& options);

// The same layout with one thing changed; see settings.h. Refuses what cannot run.
Result<Proposal> WhatIf(const PlanRequest& job, const Proposal& base,
                        std::string_view key_and_value, const PlanOptions& options);

}  // namespace longhaul::planner::search
