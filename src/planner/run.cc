#include "planner/run.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace longhaul::planner {

namespace {

constexpr double kSecondsADay = 86'400;
constexpr double kSecondsAnHour = 3'600;

Seconds BestInterval(Seconds checkpoint_cost, Seconds mean_time_to_failure) {
  const double cost = std::max(checkpoint_cost.count(), 1e-3);
  return Seconds(std::sqrt(2 * cost * mean_time_to_failure.count()));
}

Status CheckRange(const char* name, double value, double least, double most) {
  if (value >= least && value <= most) return {};  // false for NaN
  return InvalidArgument(std::string("run: ") + name + " is " + std::to_string(value) +
                         ", must be from " + std::to_string(least) + " to " + std::to_string(most));
}

Status CheckFacts(const RunFacts& facts) {
  RETURN_IF_ERROR(CheckRange("tokens", facts.tokens, 1, 1e16));
  RETURN_IF_ERROR(CheckRange("device_hours_to_failure", facts.device_hours_to_failure, 1, 1e9));
  RETURN_IF_ERROR(CheckRange("checkpoint_cost", facts.checkpoint_cost.count(), 0, 1e5));
  RETURN_IF_ERROR(CheckRange("restart", facts.restart.count(), 0, 1e6));
  RETURN_IF_ERROR(CheckRange("power_share", facts.power_share, 0, 1.5));
  RETURN_IF_ERROR(CheckRange("node_watts_per_device", facts.node_watts_per_device, 0, 1e5));
  RETURN_IF_ERROR(CheckRange("facility_overhead", facts.facility_overhead, 1, 5));
  return CheckRange("dollars_per_kilowatt_hour", facts.dollars_per_kilowatt_hour, 0, 100);
}

}  // namespace

double Availability(Seconds checkpoint_cost, Seconds restart, Seconds mean_time_to_failure) {
  const Seconds interval = BestInterval(checkpoint_cost, mean_time_to_failure);
  // Of each interval the checkpoint is lost; of each failure half an interval and the restart.
  const double saving = checkpoint_cost.count() / (interval.count() + checkpoint_cost.count());
  const double lost = (interval.count() / 2 + restart.count()) / mean_time_to_failure.count();
  // A cluster that fails more often than it can restart still moves, by this formula's limit.
  return (1 - saving) / (1 + lost);
}

Result<RunEstimate> EstimateRun(const Question& question, const Evaluation& evaluation,
                                const StepBand& band, const RunFacts& facts) {
  RETURN_IF_ERROR(CheckFacts(facts));
  const double devices = question.cluster.devices;
  const double step_tokens = evaluation.tokens_per_second_per_device * evaluation.step.count() *
                             static_cast<double>(question.training.layout.devices());
  if (!(step_tokens > 0) || !(evaluation.step.count() > 0)) {
    return InvalidArgument("run: the step has no tokens or no time");
  }
  RunEstimate run;
  run.steps = std::ceil(facts.tokens / step_tokens);
  const double hours_to_failure = facts.device_hours_to_failure / devices;
  const Seconds failure_time(hours_to_failure * kSecondsAnHour);
  run.checkpoint_interval = BestInterval(facts.checkpoint_cost, failure_time);
  const auto available = [&](double rate) {
    return Availability(facts.checkpoint_cost, facts.restart, failure_time / rate);
  };
  run.availability = {available(2), available(1), available(0.5)};

  const auto fill = [](Range& range, const Range& from, double factor) {
    range = {from.low * factor, from.expected * factor, from.high * factor};
  };
  const auto days = [&](Seconds step, double availability) {
    return run.steps * step.count() / availability / kSecondsADay;
  };
  run.days = {days(band.low, run.availability.high),
              days(evaluation.step, run.availability.expected),
              days(band.high, run.availability.low)};
  run.failures = run.days.expected * 24 / hours_to_failure;
  fill(run.device_hours, run.days, 24 * devices);
  const spec::Device& device = question.cluster.device;
  const double watts = (device.power_watts * facts.power_share + facts.node_watts_per_device) *
                       facts.facility_overhead;
  fill(run.energy_megawatt_hours, run.device_hours, watts / 1e6);
  fill(run.dollars, run.device_hours,
       device.dollars_per_hour + watts / 1e3 * facts.dollars_per_kilowatt_hour);
  return run;
}

}  // namespace longhaul::planner
