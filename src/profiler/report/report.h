// The reports of a job: ten lines for people, JSON for programs, one page, a merged trace.
//
// The summary begins with the most useful action. MFU is model FLOPs over time, ranks and the GPU's
// dense half-precision peak, where the caller gives the model's FLOPs; HFU counts the FLOPs of the
// traced operators with shapes. An unknown one is not shown.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/status.h"
#include "profiler/across/findings.h"
#include "spec/cluster/device.h"

namespace longhaul::profiler {

struct ReportOptions {
  std::optional<spec::Device> device;  // absent: from the traces' device name
  double model_flops = 0;              // of a step of the whole job; 0: unknown
};

struct Utilization {
  std::optional<spec::Device> device;
  double mfu = 0;  // 0: unknown
  double hfu = 0;
};
Utilization UtilizationOf(const ProfiledJob& job, const Findings& findings,
                          const ReportOptions& options);

// About ten lines, plus one for each warning.
std::string SummaryText(const ProfiledJob& job, const Findings& findings,
                        const ReportOptions& options);
nlohmann::ordered_json ReportJson(const ProfiledJob& job, const Findings& findings,
                                  const ReportOptions& options);
// A self-contained page without scripts.
std::string ReportHtml(const ProfiledJob& job, const Findings& findings,
                       const ReportOptions& options);
// A Chrome trace that Perfetto opens: one process per rank, on one clock, with its steps, segments
// and collectives. Arrows go from a send to its receive, and from the last member to arrive at a
// collective to the others. Written piece by piece; fails as `write` does.
Status WriteMergedTrace(const ProfiledJob& job,
                        const std::function<Status(std::string_view)>& write);
// The same as one text.
std::string MergedTrace(const ProfiledJob& job);
// Compares two runs: the step, each kind of time, and the kernels that changed most.
std::string CompareText(const ProfiledJob& before, const Findings& b, const ProfiledJob& after,
                        const Findings& a);

}  // namespace longhaul::profiler
