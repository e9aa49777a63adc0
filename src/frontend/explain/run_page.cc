#include "frontend/explain/run_page.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "frontend/explain/run_files.h"
#include "frontend/explain/run_status.h"
#include "service/controller/page/report_page.h"
#include "service/controller/view/fault_view.h"
#include "service/controller/view/run_view.h"
#include "story/run_totals.h"
#include "story/story.h"

namespace longhaul::frontend {
namespace {

using PageJson = nlohmann::ordered_json;

// With their evidence; a story takes about 5 kB, and the file has to fit into a mail.
constexpr size_t kMostStories = 100;

// What the log has of a run, read once.
struct ReadPage {
  story::RunRecord record;
  service::RunHistory curves;
  proto::JobStatus status;
  Instant now;  // of the last notification: what is shown is from then
};

Result<ReadPage> ReadPageOf(const std::string& path, const std::string& job,
                            const std::optional<proto::JobStatus>& status) {
  ReadPage page;
  RunStatus from_log;
  int64_t last_ns = 0;
  Result<story::RunRecord> record = ReadRun(path, job, [&](const proto::Notification& each) {
    page.curves.Take(each);
    from_log.Take(each);
    last_ns = std::max(last_ns, each.at_ns());
  });
  if (record.ok()) {
    page.record = *std::move(record);
  } else {
    if (!status.has_value()) return record.status();
    page.record.job_id = job;
    page.record.notes.push_back(
        "The log of the run could not be read, so its curves and the stories of its faults are "
        "missing (" +
        record.status().message() + ").");
  }
  if (status.has_value()) {
    page.status = *status;
    last_ns = std::max(last_ns, status->ended_at_ns());
    page.record.totals = story::TotalsOf(*status);
  } else {
    page.status = from_log.Of(page.record);
    if (!page.record.totals.has_value()) {
      page.record.notes.push_back("The run has no report, so the shares of its time are missing.");
    }
  }
  page.now = InstantFromNanoseconds(last_ns);
  return page;
}

}  // namespace

Result<std::string> RunPage(const std::string& path, const std::string& job,
                            const std::optional<proto::JobStatus>& status) {
  ASSIGN_OR_RETURN(ReadPage page, ReadPageOf(path, job, status));
  ReadOutputs(story::MakeStory(page.record), page.record);
  const story::Story story = story::MakeStory(page.record);
  PageJson faults = PageJson::array();
  const size_t skipped = story.faults.size() - std::min(story.faults.size(), kMostStories);
  for (size_t i = skipped; i < story.faults.size(); ++i) {
    faults.push_back(service::FaultViewJson(story, story.faults[i], page.status, page.now));
  }
  service::RunViewInput input;
  input.status = page.status;
  input.past.history = std::move(page.curves);
  input.now = page.now;
  const PageJson data = {
      {"view", service::RunViewJson(input)}, {"faults", std::move(faults)}, {"notes", story.notes}};
  return service::ReportPage("Longhaul: " + story.job_id, data);
}

}  // namespace longhaul::frontend
