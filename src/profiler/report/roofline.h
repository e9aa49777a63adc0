// Every operator that has work against what the GPU could do with it.
//
// An operator's attainable rate is the smaller of the GPU's peak in its precision and its FLOPs a
// byte times the memory's bandwidth (Williams, Waterman and Patterson, "Roofline", CACM 2009); one
// that only moves data is held against the bandwidth alone. Where the GPU isn't known (a
// processor), the peak and the bandwidth are the best that an operator with 1 % of the time showed,
// which is said. Bytes are one read or write of each operand (rank/operator_work.h), so an operator
// whose operands come from a cache may exceed its roof. Kernels that no operator with shapes claims
// count nothing: their share of the time is told.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/across/profiled_job.h"
#include "spec/cluster/device.h"

namespace longhaul::profiler {

struct RooflineRow {
  std::string name;
  std::string shapes;
  uint64_t count = 0;
  double seconds = 0;  // of all ranks and steps
  double flops = 0;
  double bytes = 0;
  double attainable_s = 0;  // what it would take at its roof
  bool by_compute = false;  // the peak is its roof, not the bandwidth

  double share() const { return seconds > 0 ? attainable_s / seconds : 0; }
  double lost_s() const { return seconds > attainable_s ? seconds - attainable_s : 0; }
};

struct Roofline {
  std::string roof;        // the GPU's name, or "the fastest operators seen"
  double flops_per_s = 0;  // in half precision, or the best seen
  double bytes_per_s = 0;
  std::vector<RooflineRow> rows;  // what loses most first
  double kernel_s = 0;            // all computing kernels
  double counted_s = 0;           // of them, those of `rows`
  double share() const;           // attainable over taken, of what is counted
};

// `device` may be empty. Rows are of all ranks together.
Roofline RooflineOf(const ProfiledJob& job, const std::optional<spec::Device>& device);

}  // namespace longhaul::profiler
