// Estimates a whole run: days, device hours, energy and money, including failures.
//
// Devices fail at a constant rate; each failure loses half a checkpoint interval and the time to
// detect it and restart. The interval that loses least is sqrt(2 x checkpoint cost x mean time
// between failures) (Young, CACM 1974). Rate: 419 unexpected interruptions in 54 days on 16,384
// GPUs, one in 50,700 GPU hours (Llama 3, arXiv 2407.21783, table 5). Every figure has a range: the
// step's band, and half to twice the failure rate. Leaves out queueing, evaluations during the run
// and hardware bought for it.
#pragma once

#include "base/status.h"
#include "planner/case.h"
#include "planner/evaluation.h"

namespace longhaul::planner {

struct RunFacts {
  double tokens = 0;                        // to train on
  double device_hours_to_failure = 50'700;  // mean, of one device
  Seconds checkpoint_cost{30};              // for which training waits
  Seconds restart{600};                     // detection, replacement, loading, first step
  double power_share = 0.85;                // of the power on the GPU's datasheet, while training
  double node_watts_per_device = 250;       // host, NICs, fans: a share for each GPU
  double facility_overhead = 1.2;           // PUE
  double dollars_per_kilowatt_hour = 0;     // 0: included in the price of the device hour
};

struct Range {
  double low = 0;
  double expected = 0;
  double high = 0;
};

struct RunEstimate {
  double steps = 0;
  Seconds checkpoint_interval;
  double failures = 0;
  Range availability;  // share of time that advances the training
  Range days;
  Range device_hours;
  Range energy_megawatt_hours;
  Range dollars;
};

// Rejects facts that are negative, not finite or absurd, each by name. `band` is of the step.
Result<RunEstimate> EstimateRun(const Question& question, const Evaluation& evaluation,
                                const StepBand& band, const RunFacts& facts);

// Share of time that is not lost, at the best checkpoint interval; above 0.
double Availability(Seconds checkpoint_cost, Seconds restart, Seconds mean_time_to_failure);

}  // namespace longhaul::planner
