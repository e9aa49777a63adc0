// The numbers of HolisticTraceAnalysis (HTA), by its definitions.
//
// So that a reader who trusts HTA can check us: temporal breakdown, overlap of communication and
// computation, kernel types, idle time by stream, launch statistics and queue lengths. Definitions
// are those of HTA at commit f4d0062 (hta/analyzers/breakdown_analysis.py,
// communication_analysis.py, cuda_kernel_analysis.py, trace_counters.py; times rounded as
// hta/common/trace_parser.py does: inwards to whole microseconds if any time has a fraction, and
// with two or more ProfilerSteps nothing that begins after the last one's begin). Our own numbers
// keep nanoseconds and all steps; see rank/ledger.h.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "profiler/trace/trace.h"

namespace longhaul::profiler {

struct HtaIdle {
  int64_t stream = 0;
  // Sums of gaps between a kernel's start and the end of the one before, by what it waited for.
  int64_t host_wait_us = 0;
  int64_t kernel_wait_us = 0;
  int64_t other_us = 0;
};

struct HtaQueue {
  int64_t stream = 0;
  uint64_t count = 0;
  double mean = 0;
  int64_t max = 0;
};

struct HtaNumbers {
  int64_t kernel_us = 0;  // first start to last end
  int64_t idle_us = 0;
  int64_t compute_us = 0;
  int64_t non_compute_us = 0;
  double overlap_percent = 0;  // of communication, hidden by computation
  // By the set of classes that run: bit 0 computation, 1 communication, 2 memory; [0] is unused.
  std::array<int64_t, 8> type_us = {};
  std::vector<HtaIdle> idle;    // by stream
  std::vector<HtaQueue> queue;  // by stream
  uint64_t launches = 0;
  double launch_delay_us_mean = 0;
  int64_t launch_delay_us_max = 0;
  int64_t launch_cpu_us = 0;
  int64_t launch_gpu_us = 0;
};

HtaNumbers AsHta(const RankTrace& trace);

}  // namespace longhaul::profiler
