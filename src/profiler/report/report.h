// What is told of a job: ten lines for people, JSON for programs, one page, a merged trace.
//
// The summary says first what to do first. MFU is model FLOPs over time, ranks and the GPU's dense
// half-precision peak, where the caller knows the model's FLOPs; HFU counts what the traced
// operators with shapes executed. Neither is shown where it can't be known.
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
  std::optional<spec::Device> device;  // else told by the traces' device name
  double model_flops = 0;              // of a step of the whole job; 0: not known
};

struct Utilization {
  std::optional<spec::Device> device;
  double mfu = 0;  // 0: not known
  double hfu = 0;
};
Utilization UtilizationOf(const ProfiledJob& job, const Findings& findings,
                          const ReportOptions& options);

// Ten lines or a few more, one for each warning.
std::string SummaryText(const ProfiledJob& job, const Findings& findings,
                        const ReportOptions& options);
nlohmann::ordered_json ReportJson(const ProfiledJob& job, const Findings& findings,
                                  const ReportOptions& options);
// A page without scripts or anything from elsewhere.
std::string ReportHtml(const ProfiledJob& job, const Findings& findings,
                       const ReportOptions& options);
// A Chrome trace that Perfetto opens: a process a rank, on one clock, with its steps, segments and
// collectives. Arrows go from a send to its receive, and from who came last to a collective to its
// other members. Written piece by piece; fails as `write` does.
Status WriteMergedTrace(const ProfiledJob& job,
                        const std::function<Status(std::string_view)>& write);
// The same as a whole.
std::string MergedTrace(const ProfiledJob& job);
// Two runs: what became of the step, of each kind of time, and of the kernels that changed most.
std::string CompareText(const ProfiledJob& before, const Findings& b, const ProfiledJob& after,
                        const Findings& a);

}  // namespace longhaul::profiler
