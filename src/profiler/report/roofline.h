// Compares every operator that has work with the limits of the GPU.
//
// An operator's attainable rate is the smaller of the GPU's peak in its precision and its FLOPs per
// byte times the memory's bandwidth (Williams, Waterman and Patterson, "Roofline", CACM 2009); one
// that only moves data is compared with the bandwidth alone. Where the GPU is unknown (a
// processor), peak and bandwidth are the best that an operator with 1 % of the time reached, as the
// report states. Bytes are one read or write of each operand (rank/operator_work.h), so an operator
// whose operands come from a cache may exceed its roof. Kernels without an operator with shapes are
// not counted: the report shows their share.
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
  double attainable_s = 0;  // the time that it would take at its roof
  bool by_compute = false;  // the peak is its roof, not the bandwidth

  double share() const { return seconds > 0 ? attainable_s / seconds : 0; }
  double lost_s() const { return seconds > attainable_s ? seconds - attainable_s : 0; }
};

struct Roofline {
  std::string roof;        // the GPU's name, or "the fastest operators seen"
  double flops_per_s = 0;  // in half precision, or the best seen
  double bytes_per_s = 0;
  std::vector<RooflineRow> rows;  // the largest loss first
  double kernel_s = 0;            // all computing kernels
  double counted_s = 0;           // part of them in `rows`
  double share() const;           // attainable over measured, of the counted kernels
};

// `device` may be empty. Rows are of all ranks together.
Roofline RooflineOf(const ProfiledJob& job, const std::optional<spec::Device>& device);

}  // namespace longhaul::profiler
