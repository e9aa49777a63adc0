#include "profiler/report/roofline.h"

#include <algorithm>
#include <map>
#include <utility>

#include "profiler/rank/operator_work.h"

namespace longhaul::profiler {
namespace {

// An operator that takes less of the time is not believed: one that hands a view on moves nothing.
constexpr double kNotableShare = 0.01;

double PeakOf(const spec::Device& device, double element_bytes) {
  const double half = device.half.count();
  if (element_bytes == 1 && device.fp8.count() > 0) return device.fp8.count();
  if (element_bytes >= 4 && device.fp32.count() > 0) return device.fp32.count();
  return half;
}

std::vector<RooflineRow> Collect(const ProfiledJob& job) {
  std::map<std::pair<std::string, std::string>, RooflineRow> rows;
  for (const RankSummary& rank : job.ranks) {
    for (const OperatorTotal& op : rank.operators) {
      if (op.total_ns <= 0 || op.bytes <= 0) continue;
      RooflineRow& row = rows[{op.name, op.shapes}];
      row.name = op.name;
      row.shapes = op.shapes;
      row.count += op.count;
      row.seconds += static_cast<double>(op.total_ns) * 1e-9;
      row.flops += op.flops;
      row.bytes += op.bytes;
    }
  }
  std::vector<RooflineRow> list;
  for (auto& [key, row] : rows) list.push_back(std::move(row));
  return list;
}

}  // namespace

double Roofline::share() const {
  double attainable = 0;
  for (const RooflineRow& row : rows) attainable += std::min(row.attainable_s, row.seconds);
  return counted_s > 0 ? attainable / counted_s : 0;
}

Roofline RooflineOf(const ProfiledJob& job, const std::optional<spec::Device>& device) {
  Roofline roofline;
  roofline.rows = Collect(job);
  if (device.has_value()) {
    roofline.roof = device->name;
    roofline.flops_per_s = device->half.count();
    roofline.bytes_per_s = device->memory_bandwidth.count();
  } else {
    roofline.roof = "the fastest operators seen";
    double all_s = 0;
    for (const RooflineRow& row : roofline.rows) all_s += row.seconds;
    for (const RooflineRow& row : roofline.rows) {
      if (row.seconds < kNotableShare * all_s) continue;
      roofline.flops_per_s = std::max(roofline.flops_per_s, row.flops / row.seconds);
      roofline.bytes_per_s = std::max(roofline.bytes_per_s, row.bytes / row.seconds);
    }
  }
  for (RooflineRow& row : roofline.rows) {
    const double peak = device.has_value()
                            ? PeakOf(*device, WorkOf(row.name, row.shapes).element_bytes)
                            : roofline.flops_per_s;
    const double compute_s = peak > 0 ? row.flops / peak : 0;
    const double memory_s = roofline.bytes_per_s > 0 ? row.bytes / roofline.bytes_per_s : 0;
    row.by_compute = compute_s > memory_s;
    row.attainable_s = std::max(compute_s, memory_s);
    roofline.counted_s += row.seconds;
  }
  std::stable_sort(
      roofline.rows.begin(), roofline.rows.end(),
      [](const RooflineRow& a, const RooflineRow& b) { return a.lost_s() > b.lost_s(); });
  for (const RankSummary& rank : job.ranks) {
    roofline.kernel_s += static_cast<double>(rank.kernel_ns) * 1e-9;
  }
  return roofline;
}

}  // namespace longhaul::profiler
