// What the scheduler's benchmarks share: CPU clocks, percentiles, and one printed row a
// measurement.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"

namespace longhaul::scheduler::bench {

// Of this thread, so that a busy machine counts little.
double CpuSeconds();

struct Times {
  std::vector<double> seconds;

  double Sum() const;
  double Quantile(double q) const;  // 0 without any
};

// "mixed-5000  61,234 decisions/s  p50 12 us ...": name, then what is passed.
void PrintRow(const std::string& name, const std::string& text);

JobRequest Job(const std::string& name, const std::string& queue, int32_t tasks, int32_t gpus,
               int32_t cpu_milli = 1'000);

// Starts that the round decided, each confirmed as running.
size_t Confirm(Scheduler& scheduler, const std::vector<Decision>& decisions, Instant now);

// Kueue's published performance shapes, decision time charged to the clock (kueue_shapes.cc).
void KueueShapes();

}  // namespace longhaul::scheduler::bench
