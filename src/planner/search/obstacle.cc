#include "planner/search/obstacle.h"

#include <cstdio>

#include "base/check.h"
#include "base/text.h"
#include "planner/search/internal/never.h"
#include "planner/search/settings.h"

namespace longhaul::planner::search {
namespace {

using internal::kNever;

std::string Number(const char* format, double number) {
  char text[48];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

std::string GiB(double bytes) {
  return Number("%.2f GiB", bytes / static_cast<double>(int64_t{1} << 30));
}

std::string Days(double days) {
  return days < 2 ? Number("%.2f hours", 24 * days) : Number("%.2f days", days);
}

std::string Dollars(double dollars) {
  if (dollars >= 1e6) return "$" + Number("%.2fM", dollars / 1e6);
  if (dollars >= 1e4) return "$" + Number("%.1fk", dollars / 1e3);
  return "$" + Number("%.2f", dollars);
}

// The job without its deadline and budget.
PlanRequest WithoutLimits(const PlanRequest& job) {
  PlanRequest free = job;
  for (GpuCount& gpus : free.gpus) gpus.longest_step_s = kNever;
  return free;
}

// Another search of the same space, which is needed only where the first one found nothing. It
// keeps no regions and reports no progress: only its best and its smallest layout are used.
Outcome BestOf(const PlanRequest& job, const PlanOptions& options) {
  Options search = options.search;
  search.keep = 1;
  search.keep_regions = false;
  search.progress = nullptr;
  return Search(job, EvaluatorOracle(job), search);
}

std::optional<Proposal> Found(const PlanRequest& job, const Outcome& outcome,
                              const PlanOptions& options) {
  if (outcome.best.empty()) return std::nullopt;
  const spec::Training& training = outcome.best.front().training;
  return Propose(job, ClusterOf(job, training), training, options);
}

// The best layout of the job's counts when a second of step on each weighs `rate`.
std::optional<Proposal> BestBy(PlanRequest job, double GpuCount::*rate, const PlanOptions& options,
                               double& figure) {
  for (GpuCount& gpus : job.gpus) gpus.weight = gpus.*rate;
  const Outcome outcome = BestOf(job, options);
  if (!outcome.best.empty()) figure = outcome.best.front().objective;
  return Found(job, outcome, options);
}

// Of layouts that fit and can be run: which limit leaves none.
std::optional<Obstacle> LimitOf(const PlanRequest& job, const PlanOptions& options) {
  if (!job.deadline_days && !job.budget_dollars) return std::nullopt;
  const PlanRequest free = WithoutLimits(job);
  Obstacle obstacle;
  double days = 0;
  obstacle.fastest = BestBy(free, &GpuCount::days_per_step_s, options, days);
  if (!obstacle.fastest) return std::nullopt;
  double dollars = 0;
  if (!job.gpus.empty() && job.gpus.front().dollars_per_step_s > 0) {
    obstacle.cheapest = BestBy(free, &GpuCount::dollars_per_step_s, options, dollars);
  }
  const bool late = job.deadline_days && days > *job.deadline_days;
  const bool dear = job.budget_dollars && dollars > *job.budget_dollars;
  // The fastest layout decides on the deadline and the cheapest on the budget. Where each of them
  // meets its own limit, no single layout meets both.
  obstacle.cause = late && dear ? Cause::kDeadlineAndBudget
                   : late       ? Cause::kDeadline
                   : dear       ? Cause::kBudget
                                : Cause::kDeadlineWithBudget;
  return obstacle;
}

std::string LimitsText(const PlanRequest& job) {
  std::string text;
  if (job.deadline_days) text += "the deadline of " + Days(*job.deadline_days);
  if (job.budget_dollars) {
    text += (text.empty() ? "" : " and ") + ("the budget of " + Dollars(*job.budget_dollars));
  }
  return text;
}

std::string_view Opening(Cause cause) {
  switch (cause) {
    case Cause::kDeadline:
      return "Layouts fit the GPUs, but all of them take longer than ";
    case Cause::kBudget:
      return "Layouts fit the GPUs, but all of them cost more than ";
    case Cause::kDeadlineAndBudget:
      return "Layouts fit the GPUs, but none of them meets either ";
    case Cause::kDeadlineWithBudget:
      return "Layouts fit the GPUs, and each limit can be met alone, but no layout meets both ";
    case Cause::kNotLegal:
    case Cause::kMemory:
    case Cause::kFramework:
    case Cause::kNotFound:
      break;
  }
  return "";
}

std::string OverLimits(const Plan& plan, const Obstacle& obstacle) {
  PlanRequest named = plan.job;
  if (obstacle.cause == Cause::kDeadline) named.budget_dollars.reset();
  if (obstacle.cause == Cause::kBudget) named.deadline_days.reset();
  std::string text = std::string(Opening(obstacle.cause)) + LimitsText(named) + ".";
  if (obstacle.cheapest) text += " " + RunSentence("cheapest", *obstacle.cheapest) + ".";
  text += " " + RunSentence("fastest", *obstacle.fastest) + ".";
  return text;
}

}  // namespace

std::string_view ToString(Cause cause) {
  switch (cause) {
    case Cause::kNotLegal:
      return "not_legal";
    case Cause::kMemory:
      return "memory";
    case Cause::kFramework:
      return "framework";
    case Cause::kDeadline:
      return "deadline";
    case Cause::kBudget:
      return "budget";
    case Cause::kDeadlineAndBudget:
      return "deadline_and_budget";
    case Cause::kDeadlineWithBudget:
      return "deadline_with_budget";
    case Cause::kNotFound:
      return "not_found";
  }
  return "";
}

Obstacle FindObstacle(const PlanRequest& job, const Outcome& outcome, const PlanOptions& options) {
  CHECK(outcome.best.empty() && !outcome.cancelled);
  Obstacle obstacle;
  if (outcome.total_points() == 0) {
    obstacle.cause = Cause::kNotLegal;
    return obstacle;
  }
  if (std::optional<Obstacle> limit = LimitOf(job, options)) {
    // A search that ended at its limit proves the absence of nothing.
    if (outcome.limited) limit->cause = Cause::kNotFound;
    return *limit;
  }
  PlanRequest any = WithoutLimits(job);
  any.reach = Reach::kEverything;
  const Outcome everything = BestOf(any, options);
  obstacle.smallest = everything.smallest;
  obstacle.beyond_frameworks = Found(any, everything, options);
  obstacle.cause = obstacle.beyond_frameworks ? Cause::kFramework : Cause::kMemory;
  if (outcome.limited || everything.limited) obstacle.cause = Cause::kNotFound;
  return obstacle;
}

std::string RunSentence(std::string_view which, const Proposal& proposal) {
  CHECK(proposal.run.has_value());
  std::string text = "The " + std::string(which) + " run takes " +
                     WithThousands(proposal.cluster.devices) + " GPUs and " +
                     Days(proposal.run->days.expected);
  if (proposal.run->dollars.expected > 0) {
    text += " and costs " + Dollars(proposal.run->dollars.expected);
  }
  return text + " (" + LayoutText(proposal.training) + ")";
}

std::string ObstacleText(const Plan& plan) {
  CHECK(plan.obstacle.has_value());
  const Obstacle& obstacle = *plan.obstacle;
  switch (obstacle.cause) {
    case Cause::kNotLegal:
      return "No legal layout exists: what is fixed, the batch of " +
             WithThousands(plan.job.base.batch.global) + " and " +
             WithThousands(plan.job.cluster.devices) + " devices do not go together.";
    case Cause::kMemory:
      return "No layout fits the GPUs' memory. The smallest looked at takes " +
             GiB(static_cast<double>(obstacle.smallest.memory_bytes)) + " of " +
             GiB(static_cast<double>(plan.job.cluster.device.memory.count())) +
             " on the fullest GPU: " + LayoutText(obstacle.smallest.training) +
             ". More devices, a smaller batch or sequence, or fewer fixed sizes may help.";
    case Cause::kFramework:
      return "Layouts fit the GPUs, but no framework that may be used has options for any of "
             "them. The best of them, which --framework all proposes, takes " +
             ToString(obstacle.beyond_frameworks->evaluation.step) +
             " a step: " + LayoutText(obstacle.beyond_frameworks->training) + ".";
    case Cause::kNotFound:
      return "No layout was found before the search ended at its limit; of " +
             WithThousands(static_cast<int64_t>(plan.outcome.total_points())) + " layouts " +
             WithThousands(static_cast<int64_t>(
                 plan.outcome.points[static_cast<size_t>(Rule::kNotSearched)])) +
             " were not searched. --prove searches all of them; fixed sizes (--fix) leave fewer.";
    default:
      return OverLimits(plan, obstacle);
  }
}

std::string LimitText(const Plan& plan, const Proposal& proposal) {
  const PlanRequest& job = plan.job;
  for (const GpuCount& gpus : CountsOf(job)) {
    if (gpus.devices != proposal.cluster.devices) continue;
    const double step_s = proposal.evaluation.step.count();
    const double days = step_s * gpus.days_per_step_s;
    const double dollars = step_s * gpus.dollars_per_step_s;
    std::string text;
    if (job.deadline_days && days > *job.deadline_days) {
      text += " The run would take " + Days(days) + ", the deadline is " +
              Days(*job.deadline_days) + ".";
    }
    if (job.budget_dollars && dollars > *job.budget_dollars) {
      text += " The run would cost " + Dollars(dollars) + ", the budget is " +
              Dollars(*job.budget_dollars) + ".";
    }
    return text;
  }
  if (job.gpus.size() <= 1) return "";
  return " " + WithThousands(proposal.cluster.devices) + " GPUs are none of the counts searched.";
}

}  // namespace longhaul::planner::search
