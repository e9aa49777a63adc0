#include "planner/search/plan.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "planner/error_band.h"
#include "planner/search/internal/surroundings.h"
#include "planner/search/obstacle.h"
#include "planner/search/settings.h"

namespace longhaul::planner::search {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

// Those with options for all but a recompute by stage.
std::vector<flags::Framework> FrameworksOf(Question question) {
  if (question.training.recompute.kind == spec::RecomputeKind::kByStage) {
    question.training.recompute = {};
    question.training.stage_recompute.clear();
  }
  std::vector<flags::Framework> found;
  for (const auto framework :
       {flags::Framework::kMegatron, flags::Framework::kTorchtitan, flags::Framework::kDeepSpeed}) {
    if (flags::CheckExpressible(framework, question).ok()) found.push_back(framework);
  }
  return found;
}

Proposal ProposeBy(Evaluator& evaluator, const Question& question, const PlanOptions& options) {
  Proposal proposal;
  proposal.training = question.training;
  proposal.cluster = question.cluster;
  evaluator.Evaluate(question.training, proposal.evaluation);
  proposal.band = ErrorBand(question, 0, proposal.evaluation.step);
  proposal.frameworks = FrameworksOf(question);
  proposal.memory_share = static_cast<double>(proposal.evaluation.device_memory.count()) /
                          static_cast<double>(question.cluster.device.memory.count());
  if (options.tokens > 0) {
    RunFacts facts = options.run;
    facts.tokens = options.tokens;
    Result<RunEstimate> run = EstimateRun(question, proposal.evaluation, proposal.band, facts);
    if (run.ok()) proposal.run = *run;
  }
  return proposal;
}

}  // namespace

spec::DeviceCluster ClusterOf(const PlanRequest& job, const spec::Training& training) {
  spec::DeviceCluster cluster = job.cluster;
  cluster.devices = static_cast<uint32_t>(training.layout.devices());
  return cluster;
}

Proposal Propose(const PlanRequest& job, const spec::DeviceCluster& cluster,
                 const spec::Training& training, const PlanOptions& options) {
  Evaluator evaluator = EvaluatorOf(job, cluster, training.software);
  return ProposeBy(evaluator, {job.model, cluster, training}, options);
}

std::optional<Proposal> NearestUniform(const PlanRequest& job, const Proposal& proposal,
                                       std::optional<flags::Framework> framework,
                                       const PlanOptions& options) {
  if (proposal.training.recompute.kind != spec::RecomputeKind::kByStage) return std::nullopt;
  spec::Training bare = proposal.training;
  bare.recompute = {};
  bare.stage_recompute.clear();
  PlanRequest same = job;
  same.fixed = {};
  CHECK(ParseFixed(LayoutText(bare), same.fixed).ok());
  same.fixed.recompute.reset();
  same.fixed.offload = bare.offload;
  same.fixed.order = bare.layout.order;
  same.fixed.virtual_pipeline = bare.layout.virtual_pipeline;
  same.fixed.schedule = bare.layout.schedule;
  same.fixed.shard_group = bare.layout.shard_group;
  same.fixed.context_kind = bare.layout.context_kind;
  same.recompute_by_stage = false;
  same.gpus = {GpuCount{proposal.cluster.devices}};
  if (framework) {
    same.reach = Reach::kOneFramework;
    same.framework = *framework;
  }
  Options search = options.search;
  search.keep = 1;
  search.keep_regions = false;
  search.progress = nullptr;
  const Outcome outcome = Search(same, EvaluatorOracle(same), search);
  if (outcome.best.empty()) return std::nullopt;
  return Propose(same, proposal.cluster, outcome.best.front().training, options);
}

Result<Proposal> WhatIf(const PlanRequest& job, const Proposal& base,
                        std::string_view key_and_value, const PlanOptions& options) {
  Question question{job.model, base.cluster, base.training};
  // Runs of stages that the change may take away; chosen again below.
  question.training.stage_recompute.clear();
  RETURN_IF_ERROR(Change(key_and_value, question));
  PlanRequest changed = job;
  changed.model = question.model;
  changed.cluster = question.cluster;
  if (question.training.recompute.kind == spec::RecomputeKind::kByStage) {
    // What each stage needs is chosen again; where nothing is enough, all of it.
    const bool named = key_and_value.starts_with("recompute");
    const bool chosen = (named && !question.training.stage_recompute.empty()) ||
                        EvaluatorOracle(changed)()->Choose(question.training, kForever);
    if (!chosen) question.training.recompute.kind = spec::RecomputeKind::kFull;
  }
  Evaluator evaluator = EvaluatorOf(changed, question.cluster, question.training.software);
  return ProposeBy(evaluator, question, options);
}

Plan MakePlan(const PlanRequest& job, const PlanOptions& options) {
  Plan plan;
  plan.job = job;
  plan.tokens = options.tokens;
  const OracleFactory oracle = EvaluatorOracle(job);
  Options search = options.search;
  search.keep_regions = options.prove;
  if (options.surroundings && search.progress) {
    search.progress = [&options](Standing standing) {
      standing.share *= internal::kShareOfFirst;
      return options.search.progress(standing);
    };
  }
  plan.outcome = Search(job, oracle, search);
  const bool whole = !plan.outcome.cancelled;
  if (options.prove && whole) plan.proof = Prove(job, oracle, plan.outcome, search);
  plan.outcome.pruned.clear();
  plan.outcome.pruned.shrink_to_fit();
  for (const Candidate& candidate : plan.outcome.best) {
    plan.best.push_back(
        Propose(job, ClusterOf(job, candidate.training), candidate.training, options));
  }
  if (plan.best.empty() && whole) plan.obstacle = FindObstacle(job, plan.outcome, options);
  if (!plan.best.empty() && whole) {
    plan.uniform = NearestUniform(job, plan.best.front(), std::nullopt, options);
  }
  if (options.surroundings && !plan.best.empty() && whole) {
    plan.influences = internal::InfluencesOf(job, plan.best.front(), options);
    plan.timeline = internal::TimelineOf(job, plan.best.front());
    internal::AddFrontier(options, plan);
  }
  return plan;
}

}  // namespace longhaul::planner::search
