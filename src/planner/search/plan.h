// The answer of the planner: the best layouts with all figures, and related results.
//
// Pure: a job and a user's options go in, the data of tables, JSON and the page comes out. Times of
// the pipeline come from a simulated schedule (time/simulate.h), short enough to be drawn: a long
// step is cut to the micro-batches that show filling, steady state and draining.
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
  std::optional<RunEstimate> run;            // present with tokens to train on
  std::vector<flags::Framework> frameworks;  // that have options for it
  double memory_share = 0;                   // of the GPU, as nvidia-smi shows
};

// For a proposal with a recompute per stage, the layout with one choice for all stages, as
// frameworks require it: the fastest that fits and that `framework` (or any one) has options for.
std::optional<Proposal> NearestUniform(const PlanRequest& job, const Proposal& proposal,
                                       std::optional<flags::Framework> framework,
                                       const PlanOptions& options);

// A proposal that no other one beats in time, money and free memory at once.
struct FrontierPoint {
  Proposal proposal;
  double headroom_asked = 0;
};

// The step's time with one input changed in both directions.
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

// Why nothing is proposed: the first of these conditions that no layout passes.
enum class Cause {
  kNotLegal,            // the fixed values, the batch and the GPUs allow no layout
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
  // For a deadline or a budget: the fastest and, where the GPU has a price, the cheapest layouts
  // that fit.
  std::optional<Proposal> fastest;
  std::optional<Proposal> cheapest;
  std::optional<Proposal> beyond_frameworks;  // of kFramework: the best that fits
  Candidate smallest;                         // of kMemory: needs least memory of those evaluated
};

struct Plan {
  PlanRequest job;
  double tokens = 0;
  Outcome outcome;
  std::optional<Proof> proof;
  std::vector<Proposal> best;
  std::optional<Obstacle> obstacle;  // where no layout is best and the search was not cancelled
  std::vector<FrontierPoint> frontier;
  std::optional<Proof> frontier_proof;  // of all searches of the frontier together
  std::vector<Influence> influences;    // largest first
  // For the best one, where each of its stages has its own recompute.
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

// For a cancelled search: the best so far, without proof and related results.
Plan MakePlan(const PlanRequest& job, const PlanOptions& options);

// The job's cluster with the number of GPUs of the layout.
spec::DeviceCluster ClusterOf(const PlanRequest& job, const spec::Training& training);

Proposal Propose(const PlanRequest& job, const spec::DeviceCluster& cluster,
                 const spec::Training& training, const PlanOptions& options);

// The same layout with one thing changed; see settings.h. Rejects a layout that cannot run.
Result<Proposal> WhatIf(const PlanRequest& job, const Proposal& base,
                        std::string_view key_and_value, const PlanOptions& options);

}  // namespace longhaul::planner::search
