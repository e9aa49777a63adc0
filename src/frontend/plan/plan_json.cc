#include "frontend/plan/plan_json.h"

#include "base/format.h"
#include "frontend/plan/plan_figures.h"
#include "planner/search/obstacle.h"
#include "planner/search/settings.h"
#include "planner/search/why_not.h"
#include "spec/model/parameters.h"

namespace longhaul::frontend {
namespace {

using Json = nlohmann::ordered_json;
using planner::search::GpuCount;
using planner::search::Plan;
using planner::search::Proposal;

std::string KeyOf(std::string_view name) {
  std::string key;
  for (const char c : name) {
    if (c == ' ') key += '_';
    if (c != ' ' && c != ',') key += c;
  }
  return key;
}

Json ToJson(const planner::Range& range) {
  return {{"low", range.low}, {"expected", range.expected}, {"high", range.high}};
}

Json StageJson(const planner::StageEvaluation& stage) {
  Json json;
  json["layers"] = stage.layers;
  json["micro_batches_held"] = stage.micro_batches_held;
  json["forward_seconds"] = stage.forward.count();
  json["backward_seconds"] = stage.backward.count();
  for (const MemoryPart& part : MemoryParts()) {
    json["memory_bytes"][KeyOf(part.name)] = (stage.memory.*part.member).count();
  }
  json["memory_bytes"]["total"] = stage.memory.total().count();
  return json;
}

Json RunJson(const planner::RunEstimate& run) {
  Json json;
  json["days"] = ToJson(run.days);
  json["device_hours"] = ToJson(run.device_hours);
  json["dollars"] = ToJson(run.dollars);
  json["energy_megawatt_hours"] = ToJson(run.energy_megawatt_hours);
  json["availability"] = ToJson(run.availability);
  json["failures"] = run.failures;
  json["checkpoint_interval_seconds"] = run.checkpoint_interval.count();
  return json;
}

}  // namespace

Json ToJson(const Proposal& proposal) {
  const planner::Evaluation& evaluation = proposal.evaluation;
  Json json;
  json["layout"] = planner::search::LayoutText(proposal.training);
  json["devices"] = proposal.cluster.devices;
  json["step_seconds"] = evaluation.step.count();
  json["step_seconds_low"] = proposal.band.low.count();
  json["step_seconds_high"] = proposal.band.high.count();
  json["tokens_per_second_per_device"] = evaluation.tokens_per_second_per_device;
  json["mfu"] = evaluation.model_flops_utilization;
  json["hfu"] = evaluation.hardware_flops_utilization;
  json["micro_batches"] = evaluation.micro_batches;
  for (const StepPart& part : StepParts()) {
    json["breakdown_seconds"][KeyOf(part.name)] = (evaluation.breakdown.*part.member).count();
  }
  json["peak_memory_bytes"] = evaluation.peak_allocated.count();
  json["peak_reserved_bytes"] = evaluation.peak_reserved.count();
  json["device_memory_bytes"] = evaluation.device_memory.count();
  json["memory_share"] = proposal.memory_share;
  json["fits"] = evaluation.fits;
  for (const auto& stage : evaluation.stages) json["stages"].push_back(StageJson(stage));
  const auto recomputes = planner::search::StageRecomputeTexts(proposal.training);
  const bool by_stage = proposal.training.recompute.kind == spec::RecomputeKind::kByStage;
  for (size_t i = 0; by_stage && i < json["stages"].size(); ++i) {
    json["stages"][i]["recompute"] = recomputes[i];
  }
  json["frameworks"] = Json::array();
  for (const auto framework : proposal.frameworks) {
    json["frameworks"].push_back(ToString(framework));
  }
  if (proposal.run) json["run"] = RunJson(*proposal.run);
  return json;
}

namespace {

// Why nothing is best, and the layouts that only a deadline or a budget leaves out.
Json ObstacleJson(const Plan& plan) {
  const planner::search::Obstacle& obstacle = *plan.obstacle;
  Json json;
  json["cause"] = ToString(obstacle.cause);
  json["text"] = planner::search::ObstacleText(plan);
  if (plan.job.deadline_days) json["deadline_days"] = *plan.job.deadline_days;
  if (plan.job.budget_dollars) json["budget_dollars"] = *plan.job.budget_dollars;
  if (obstacle.cheapest) json["cheapest"] = frontend::ToJson(*obstacle.cheapest);
  if (obstacle.fastest) json["fastest"] = frontend::ToJson(*obstacle.fastest);
  if (obstacle.beyond_frameworks) {
    json["beyond_frameworks"] = frontend::ToJson(*obstacle.beyond_frameworks);
  }
  return json;
}

}  // namespace

Json ToJson(const Plan& plan) {
  Json json;
  json["model"] = plan.job.model.name;
  json["parameters"] = spec::Parameters(plan.job.model);
  json["device"] = plan.job.cluster.device.name;
  json["devices"] = plan.job.cluster.devices;
  json["global_batch"] = plan.job.base.batch.global;
  json["sequence_length"] = plan.job.model.sequence_length;
  json["tokens"] = plan.tokens;
  json["best"] = Json::array();
  for (const Proposal& proposal : plan.best) json["best"].push_back(ToJson(proposal));
  for (size_t i = 1; i < plan.best.size(); ++i) {
    json["best"][i]["why_not"] = planner::search::Differences(plan.best.front(), plan.best[i]);
  }
  if (plan.obstacle) json["obstacle"] = ObstacleJson(plan);
  if (plan.uniform) json["one_recompute_for_all_stages"] = ToJson(*plan.uniform);
  Json& search = json["search"];
  search["points"] = plan.outcome.total_points();
  for (size_t rule = 0; rule < planner::search::kRules; ++rule) {
    search["by_rule"][std::string(ToString(static_cast<planner::search::Rule>(rule)))] =
        plan.outcome.points[rule];
  }
  if (plan.proof) {
    search["proof"] = {{"holds", plan.proof->holds()},
                       {"space_points", plan.proof->space_points},
                       {"covered_points", plan.proof->covered_points},
                       {"regions", plan.proof->regions},
                       {"audited_points", plan.proof->audited_points},
                       {"gaps", plan.proof->gaps}};
  }
  if (plan.frontier_proof) {
    search["frontier_proof"] = {{"holds", plan.frontier_proof->holds()},
                                {"space_points", plan.frontier_proof->space_points},
                                {"regions", plan.frontier_proof->regions},
                                {"gaps", plan.frontier_proof->gaps}};
  }
  search["finished"] = !plan.outcome.cancelled && !plan.outcome.limited;
  // The share of the best's objective by which an optimum that was not seen could be lower.
  search["gap"] = plan.outcome.gap();
  for (const GpuCount& gpus : plan.job.gpus) search["gpus"].push_back(gpus.devices);
  search["objective"] = plan.job.objective == planner::search::Objective::kCost ? "cost" : "time";
  for (const auto& point : plan.frontier) json["frontier"].push_back(ToJson(point.proposal));
  for (const auto& influence : plan.influences) {
    json["influences"].push_back(
        {{"what", influence.what}, {"low", influence.low}, {"high", influence.high}});
  }
  return json;
}

}  // namespace longhaul::frontend
