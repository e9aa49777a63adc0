#include "frontend/artefacts.h"

#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "frontend/charts.h"
#include "frontend/explain/run_page.h"
#include "frontend/report/report_json.h"
#include "frontend/report/report_markdown.h"
#include "io/files/file.h"

namespace longhaul::frontend {
namespace {

Status WritePage(const std::string& run_directory, const proto::JobStatus& status) {
  constexpr const char* kName = "report.html";
  const Result<std::string> text = RunPage(run_directory, status.job().id(), status);
  if (!text.ok()) return text.status().WithContext(kName);
  const Status written =
      io::WriteTextAtomically(io::PosixFileSystem(), run_directory + "/" + kName, *text);
  return written.ok() ? written : written.WithContext(kName);
}

}  // namespace

Status WriteArtefacts(const std::string& run_directory, const Report& report,
                      const RunHistory& history) {
  using Json = nlohmann::ordered_json;
  const std::vector<std::pair<std::string, std::string>> files = {
      {"metrics.csv", MetricsCsv(history, report.status.submitted_at_ns())},
      {"report.md", ReportMarkdown(report)},
      {"report.json",
       ReportJson(report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"},
      {"loss.svg", LossChart(report, history)},
      {"timeline.svg", TimelineChart(report, history)},
  };
  Status first;
  for (const auto& [name, text] : files) {
    const Status written =
        io::WriteTextAtomically(io::PosixFileSystem(), run_directory + "/" + name, text);
    if (first.ok() && !written.ok()) first = written.WithContext(name);
  }
  const Status page = WritePage(run_directory, report.status);
  return first.ok() ? page : first;
}

std::string ProcessorName() {
  constexpr uint64_t kLimit = 16 << 20;
  const Result<std::string> text = io::ReadText("/proc/cpuinfo", kLimit);
  if (!text.ok()) return "";
  for (const std::string_view line : Split(*text, '\n')) {
    const size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string_view::npos) {
      return std::string(Trim(line.substr(colon + 1)));
    }
  }
  return "";
}

}  // namespace longhaul::frontend
