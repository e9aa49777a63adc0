// Possible faults in the traces, before their cost is computed: outliers among similar items.
#pragma once

#include <string>
#include <vector>

#include "profiler/across/findings.h"

namespace longhaul::profiler {

struct Suspect {
  Cause cause = Cause::kSlowKernels;
  std::string subject;
  std::vector<size_t> ranks;  // indices in Job::ranks
  std::string evidence;
  Change change;  // the run without the fault; refers to the job
};

// The data for the comparison.
struct Surroundings {
  const ProfiledJob& job;
  const std::vector<RankTotals>& totals;
  const Stages& stages;
  double step_s = 0;
  double steps = 1;
  std::vector<Change> stalls = {};  // as found; their cost makes no rank a straggler
};

// Calls, or pieces of a rank's work, that once took much longer than usual.
std::vector<Suspect> FindStalls(const Surroundings& around);
// Ranks, and whole hosts, that compute, launch or load longer than their peers.
std::vector<Suspect> FindStragglers(const Surroundings& around);
// Groups whose exchanges take longer on the wire than similar ones.
std::vector<Suspect> FindSlowLinks(const Surroundings& around);

// The statistics and formats of evidence texts.
double Median(std::vector<double> values);
std::string Percent(double share);
std::string Milliseconds(double seconds);

}  // namespace longhaul::profiler
