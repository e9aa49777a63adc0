// Any texts as the answers of a controller: the jobs in the first line, the nodes after it.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "engines/kubernetes/jobs/controller_report.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  using namespace longhaul::engines::kubernetes;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\n');
  const std::string jobs(text.substr(0, end));
  const std::string nodes(end == text.npos ? std::string_view() : text.substr(end + 1));
  const Result<ControllerReport> report = ReadControllerReport(jobs, nodes);
  if (!report.ok()) {
    CHECK(report.status().message().starts_with("the answer of the controller has no list"));
    return 0;
  }
  CHECK(!(report->training && report->recovering));
  CHECK(report->fault.size() <= 8'192);
  return 0;
}
