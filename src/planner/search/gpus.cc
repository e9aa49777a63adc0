#include "planner/search/gpus.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/text.h"
#include "planner/search/plan_request.h"

namespace longhaul::planner::search {
namespace {

constexpr uint32_t kOddFactors[] = {1, 3, 5, 7};

// What a second of step adds to the run.
struct Rates {
  double days = 1;
  double dollars = 0;
};

// A run's days and dollars are taken to grow in proportion to its step, so one estimate with a step
// of one second and any layout that uses all devices gives the factor of each count. Without tokens
// the step itself is what is compared, and its cost in dollars.
Result<Rates> RatesOf(const PlanRequest& job, uint32_t devices, const Goal& goal) {
  const double price = job.cluster.device.dollars_per_hour;
  if (goal.run.tokens <= 0) return Rates{1, devices * price / 3'600};
  Question question{job.model, job.cluster, job.base};
  question.cluster.devices = devices;
  question.training.layout = {};
  question.training.layout.data = devices;
  Evaluation second;
  second.step = Seconds(1);
  second.tokens_per_second_per_device =
      double{1} * job.base.batch.global * job.model.sequence_length / devices;
  StepBand band;
  band.low = band.high = second.step;
  ASSIGN_OR_RETURN(const RunEstimate run, EstimateRun(question, second, band, goal.run));
  return Rates{run.days.expected, run.dollars.expected};
}

}  // namespace

std::vector<uint32_t> GpuCounts(const spec::DeviceCluster& cluster, uint32_t low, uint32_t high) {
  CHECK(low >= 1 && low <= high);
  // Counts are whole islands on whole nodes, or parts of one unit. Powers of two and small odd
  // multiples of them are the counts that layouts divide; the two ends are always among them.
  const uint32_t unit = std::lcm(std::max(1u, cluster.island), cluster.devices_per_node);
  std::vector<uint32_t> counts;
  const auto add = [&](uint64_t devices) {
    if (devices < low || devices > high) return;
    spec::DeviceCluster with = cluster;
    with.devices = static_cast<uint32_t>(devices);
    if (spec::CheckDeviceCluster(with).ok()) counts.push_back(with.devices);
  };
  for (uint32_t part = 1; part < unit; part *= 2) {
    if (unit % part == 0) add(part);
  }
  for (uint64_t power = 1; power * unit <= high; power *= 2) {
    for (const uint32_t odd : kOddFactors) add(power * odd * unit);
  }
  add(low);
  add(high);
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

Status SetGpus(std::span<const uint32_t> counts, const Goal& goal, PlanRequest& job) {
  if (goal.run.tokens <= 0 && (goal.deadline_days || goal.budget_dollars)) {
    return InvalidArgument("a deadline or a budget is of a whole run: give the tokens to train on");
  }
  const bool money = goal.objective == Objective::kCost || goal.budget_dollars;
  if (money && !(job.cluster.device.dollars_per_hour > 0)) {
    return InvalidArgument("the GPU " + Printable(job.cluster.device.name, 40) +
                           " has no price: give dollars_per_hour in the cluster's file");
  }
  job.gpus.clear();
  job.objective = goal.objective;
  job.deadline_days = goal.deadline_days;
  job.budget_dollars = goal.budget_dollars;
  for (const uint32_t devices : counts) {
    spec::DeviceCluster cluster = job.cluster;
    cluster.devices = devices;
    RETURN_IF_ERROR(spec::CheckDeviceCluster(cluster));
    ASSIGN_OR_RETURN(const Rates rates, RatesOf(job, devices, goal));
    GpuCount count{devices, goal.objective == Objective::kCost ? rates.dollars : rates.days};
    count.days_per_step_s = rates.days;
    count.dollars_per_step_s = rates.dollars;
    if (goal.deadline_days) {
      count.longest_step_s = std::min(count.longest_step_s, *goal.deadline_days / rates.days);
    }
    if (goal.budget_dollars) {
      count.longest_step_s = std::min(count.longest_step_s, *goal.budget_dollars / rates.dollars);
    }
    job.gpus.push_back(count);
  }
  return {};
}

std::vector<GpuCount> CountsOf(const PlanRequest& job) {
  if (!job.gpus.empty()) return job.gpus;
  return {GpuCount{job.cluster.devices}};
}

}  // namespace longhaul::planner::search
