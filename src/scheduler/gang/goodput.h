// Goodput of a training job as a function of its replicas: throughput times statistical efficiency.
//
// Pollux (Qiao et al., OSDI 2021): an iteration takes s (a_c + b_c m) + ((a_c + b_c m)^g +
// T_sync^g)^(1/g) for s accumulation steps, m samples a replica and step, and T_sync = 0 for one
// replica, a_r + b_r (K - 2) on one host, a_n + b_n (K - 2) across hosts. Efficiency at batch M is
// (phi + M0) / (phi + M), phi the gradient noise scale; 1 where the batch is fixed. Doubles, since
// these are estimates; ElasticValue rounds before anything is compared.
#pragma once

#include <cstdint>

namespace longhaul::scheduler {

struct ThroughputModel {
  double compute_constant = 0;  // a_c, seconds
  double compute_slope = 0;     // b_c, seconds a sample
  double local_constant = 0;    // a_r, b_r: synchronisation on one host
  double local_slope = 0;
  double network_constant = 0;  // a_n, b_n: across hosts
  double network_slope = 0;
  double overlap = 1;  // g, 1 (none) to 10 (nearly full)
};

// Seconds an iteration. Requires replicas >= 1, hosts >= 1, samples_a_replica > 0, and
// accumulation_steps >= 0 beside the one that synchronises.
double IterationSeconds(const ThroughputModel& model, int32_t replicas, int32_t hosts,
                        double samples_a_replica, int32_t accumulation_steps);

// Requires batch >= initial_batch > 0 and noise_scale >= 0.
double StatisticalEfficiency(double noise_scale, double initial_batch, double batch);

enum class ElasticAim {
  kSum,           // the sum of speed-ups
  kHarmonicMean,  // Pollux' fairness: the power mean with p = -1
};

// The value of an option in millionths: the speed-up over the fair share, discounted by
// remaining / (remaining + restart) when `restarts`. Requires speedup >= 0 and finite; a speed-up
// below a millionth counts as one for the harmonic mean.
int64_t ElasticValue(ElasticAim aim, double speedup, bool restarts, double remaining_seconds,
                     double restart_seconds);

}  // namespace longhaul::scheduler
