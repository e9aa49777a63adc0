// Faults that the traces point at, before they are priced: what stands out against its like.
#pragma once

#include <string>
#include <vector>

#include "profiler/across/findings.h"

namespace longhaul::profiler {

struct Suspect {
  Cause cause = Cause::kSlowKernels;
  std::string subject;
  std::vector<size_t> ranks;  // places in Job::ranks
  std::string evidence;
  Change change;  // what it would be without; refers to the job
};

// What they are compared by.
struct Surroundings {
  const ProfiledJob& job;
  const std::vector<RankTotals>& totals;
  const Stages& stages;
  double step_s = 0;
  double steps = 1;
  std::vector<Change> stalls = {};  // as found; what they cost makes no rank a straggler
};

// A call that took so long on the wire once, or a piece of a rank's work.
std::vector<Suspect> FindStalls(const Surroundings& around);
// Ranks, and hosts of them, that compute, launch or load longer than their peers.
std::vector<Suspect> FindStragglers(const Surroundings& around);
// Groups whose exchanges take longer on the wire than others alike.
std::vector<Suspect> FindSlowLinks(const Surroundings& around);

// As evidence is worded.
double Median(std::vector<double> values);
std::string Percent(double share);
std::string Milliseconds(double seconds);

}  // namespace longhaul::profiler
