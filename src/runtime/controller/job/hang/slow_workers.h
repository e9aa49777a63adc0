// Finds the workers of a job for which all others wait, from what their main threads did.
//
// The workers of a step end it at the same time, so the time of a step does not tell which of them
// was slow. But those that are quick wait for the others, and a slow one hardly waits. A pure
// function of the samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/events.pb.h"

namespace longhaul::runtime::controller {

// What a worker did in a period. Shares are from 0 to 1.
struct WorkerActivity {
  uint32_t rank = 0;
  std::string node;
  double works = 0;    // the share in which it did not wait for other processes
  double ran = 0;      // of a processor
  double queued = 0;   // it could run, but other threads had the processors
  std::string mostly;  // what it did most often while it worked, as in proto::WorkersSampled
  bool known = false;  // there are enough samples for a share
};

WorkerActivity ActivityOf(const proto::WorkersSampled::Worker& worker, const std::string& node);

struct SlowWorkers {
  std::vector<WorkerActivity> slow;  // by rank
  double others = 0;                 // the median share in which the others worked
};

// A worker is slow if it works for at least 75 % of the time and half as much again as the median
// of all, if this is 30 percentage points more, and if the difference is large beside the
// differences among the others: a robust score (x - median) / (1.4826 * MAD + 0.02) of at least 3.
// So one that needs twice the time of the others is found. If half of the workers or more fit, none
// is slow: then the work is distributed so. None is found if a worker is not known.
SlowWorkers FindSlowWorkers(std::vector<WorkerActivity> workers);

// "worker 2 on node-1 slows the job down: it works 98 % of the time (in clock_nanosleep), the
// others 21 % (median), and then they wait for it". Requires a slow worker.
std::string Describe(const SlowWorkers& found);

}  // namespace longhaul::runtime::controller
