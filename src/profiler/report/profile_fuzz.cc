// Any bytes as the traces of one rank or two (cut at the first byte 0x1e): whatever the reader
// makes of them, all steps or, by the length, some, is summed up, put together, looked into and
// reported in every form, and adds up.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "profiler/across/findings.h"
#include "profiler/rank/hta.h"
#include "profiler/read/byte_source.h"
#include "profiler/read/kineto_reader.h"
#include "profiler/report/report.h"

using namespace longhaul;
using namespace longhaul::profiler;

namespace {

std::optional<RankTrace> Read(std::string_view bytes, const std::string& name) {
  SourceLimits limits;
  limits.max_bytes = 4 << 20;
  const auto source = OpenBytes(bytes, limits);
  ReadOptions options;
  options.max_event_bytes = 64 << 10;
  Result<RankTrace> trace = ReadKineto(*source, name, options);
  if (!trace.ok()) return std::nullopt;
  return *std::move(trace);
}

void CheckAddsUp(const ProfiledJob& job, const Findings& findings) {
  CHECK(findings.totals.size() == job.ranks.size());
  for (const RankTotals& totals : findings.totals) CHECK(totals.sum_ns() == totals.wall_ns);
  CHECK(std::isfinite(findings.step_s) && std::isfinite(findings.replayed_step_s));
  CHECK(std::isfinite(findings.pipeline.expected_bubble));
  CHECK(std::isfinite(findings.pipeline.measured_bubble));
  for (size_t i = 0; i < findings.findings.size(); ++i) {
    const Finding& finding = findings.findings[i];
    CHECK(std::isfinite(finding.seconds_per_step) && finding.seconds_per_step >= 0);
    if (i == 0) continue;
    const Finding& before = findings.findings[i - 1];
    CHECK(before.fault || !finding.fault);
    CHECK(before.fault != finding.fault || before.seconds_per_step >= finding.seconds_per_step);
  }
}

void Report(const ProfiledJob& job, std::optional<Schedule> schedule) {
  const Findings findings = FindAll(job, schedule);
  CheckAddsUp(job, findings);
  CHECK(!SummaryText(job, findings, {}).empty());
  CHECK(!CompareText(job, findings, job, findings).empty());
  CHECK(!ReportJson(job, findings, {}).dump().empty());  // throws if a text isn't UTF-8
  const std::string page = ReportHtml(job, findings, {});
  CHECK(ToValidUtf8(page) == page);
  const std::string merged = MergedTrace(job);
  const std::optional<RankTrace> again = Read(merged, "merged");
  CHECK(again.has_value() && (again->report.cut || again->report.damages == 0));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t cut = bytes.find('\x1e');
  std::vector<RankSummary> ranks;
  for (const std::string_view part :
       {bytes.substr(0, cut), cut == bytes.npos ? std::string_view() : bytes.substr(cut + 1)}) {
    const std::optional<RankTrace> trace = Read(part, "rank-" + std::to_string(ranks.size()));
    if (!trace.has_value()) continue;
    (void)AsHta(*trace);
    SummaryOptions options;
    if (size % 4 == 0)
      options.steps = {int64_t(size / 4 % 8), int64_t(size / 4 % 8 + size / 32 % 4)};
    Result<RankSummary> summary = Summarize(*trace, options);
    if (summary.ok()) ranks.push_back(*std::move(summary));
  }
  std::vector<RankSummary> first(ranks.begin(), ranks.begin() + (ranks.empty() ? 0 : 1));
  Result<ProfiledJob> job = AssembleJob(std::move(ranks));
  if (!job.ok() && !first.empty()) job = AssembleJob(std::move(first));  // the same rank twice
  if (!job.ok()) return 0;
  // Of the schedules one is named, or none.
  const size_t which = size % (kSchedules + 1);
  Report(*job, which < kSchedules ? std::optional(static_cast<Schedule>(which)) : std::nullopt);
  return 0;
}
