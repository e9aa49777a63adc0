// The numbers of HolisticTraceAnalysis (HTA), by its definitions.
//
// They let users of HTA verify the profiler: temporal breakdown, overlap of communication and
// computation, kernel types, idle time by stream, launch statistics and queue lengths. Definitions
// are those of HTA at commit f4d0062 (hta/analyzers/breakdown_analysis.py,
// communication_analysis.py, cuda_kernel_analysis.py, trace_counters.py; times rounded as in
// hta/common/trace_parser.py: inwards to whole microseconds if any time has a fraction, and with
// two or more ProfilerSteps nothing that begins after the last one's begin). The profiler's own
// numbers keep nanoseconds and all steps; see rank/ledger.h.
//
// Two of its numbers do not depend on the trace alone. Kinds of idle time need a launch's time,
// which HTA looks up by the row's number: Trace.load_traces numbers rows by their place in the
// file, but Trace.align_and_filter_trace by itself leaves a table whose rows were renumbered when
// steps were filtered, while links hold old numbers (HtaRows). And a queue's mean and deviation
// depend on the order of two equal times, which pandas leaves to numpy's unstable sort: numpy 1.24
// and 2.4 differ by up to 1.5 %. Both ends of the possible range are given.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "profiler/trace/trace.h"

namespace longhaul::profiler {

struct HtaIdle {
  int64_t stream = 0;
  // Sums of gaps from a kernel's end to the next one's start, by the cause of the wait.
  int64_t host_wait_us = 0;
  int64_t kernel_wait_us = 0;
  int64_t other_us = 0;
};

// A queue's lengths after each change of them.
struct HtaLengths {
  double mean = 0;
  double deviation = 0;  // of a sample, as in pandas' describe()
  int64_t min = 0;
  std::array<double, 3> quartiles{};  // interpolated linearly
  int64_t max = 0;
};

struct HtaQueue {
  int64_t stream = 0;
  uint64_t count = 0;
  HtaLengths launch_first;  // where a launch and a kernel's start have the same time
  HtaLengths kernel_first;
};

// The event that a link of the table refers to.
enum class HtaRows {
  kByPlace,   // the launch, as HTA's users see it
  kFiltered,  // the event with that number after steps were filtered
};

struct HtaNumbers {
  int64_t kernel_us = 0;  // first start to last end
  int64_t idle_us = 0;
  int64_t compute_us = 0;
  int64_t non_compute_us = 0;
  double overlap_percent = 0;  // of communication, hidden by computation
  // By the set of running classes: bit 0 computation, 1 communication, 2 memory; [0] is unused.
  std::array<int64_t, 8> type_us = {};
  std::vector<HtaIdle> idle;    // by stream
  std::vector<HtaQueue> queue;  // by stream
  uint64_t launches = 0;
  double launch_delay_us_mean = 0;
  int64_t launch_delay_us_max = 0;
  int64_t launch_cpu_us = 0;
  int64_t launch_gpu_us = 0;
};

// With kFiltered: requires a trace read with ReadOptions::places.
HtaNumbers AsHta(const RankTrace& trace, HtaRows rows = HtaRows::kByPlace);

}  // namespace longhaul::profiler
