#include "planner/search/plan.h"

#include <algorithm>

#include "planner/error_band.h"
#include "planner/search/internal/surroundings.h"
#include "planner/search/settings.h"

namespace longhaul::planner::search {
namespace {

std::vector<flags::Framework> FrameworksOf(const Question& question) {
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

spec::DeviceCluster ClusterOf(const Job& job, const spec::Training& training) {
  spec::DeviceCluster cluster = job.cluster;
  cluster.devices = static_cast<uint32_t>(training.layout.devices());
  return cluster;
}

Proposal Propose(const Job& job, const spec::DeviceCluster& cluster, const spec::Training& training,
                 const PlanOptions& options) {
  Evaluator evaluator = EvaluatorOf(job, cluster, training.software);
  return ProposeBy(evaluator, {job.model, cluster, training}, options);
}

Result<Proposal> WhatIf(const Job& job, const Proposal& base, std::string_view key_and_value,
                        const PlanOptions& options) {
  Question question{job.model, base.cluster, base.training};
  RETURN_IF_ERROR(Change(key_and_value, question));
  Job changed = job;
  changed.model = question.model;
  Evaluator evaluator = EvaluatorOf(changed, question.cluster, question.training.software);
  return ProposeBy(evaluator, question, options);
}

Plan MakePlan(const Job& job, const PlanOptions& options) {
  Plan plan;
  plan.job = job;
  plan.tokens = options.tokens;
  const OracleFactory oracle = EvaluatorOracle(job);
  Options search = options.search;
  search.keep_regions = options.prove;
  if (options.surroundings && search.progress) {
    search.progress = [&options](double share) {
      return options.search.progress(internal::kShareOfFirst * share);
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
  if (options.surroundings && !plan.best.empty() && whole) {
    plan.influences = internal::InfluencesOf(job, plan.best.front(), options);
    plan.timeline = internal::TimelineOf(job, plan.best.front());
    plan.recomputes = internal::RecomputesOf(job, plan.best.front());
    internal::AddFrontier(options, plan);
  }
  return plan;
}

}  // namespace longhaul::planner::search
