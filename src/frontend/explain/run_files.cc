#include "frontend/explain/run_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/instant_text.h"
#include "base/text.h"
#include "io/files/file.h"
#include "proto/json.h"
#include "service/agent/output/worker_output.h"
#include "service/controller/log/event_log_reader.h"

namespace longhaul::frontend {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kLargestLines = uint64_t{256} << 20;
constexpr uint64_t kLargestReport = uint64_t{64} << 20;

bool IsFile(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
}

bool IsFolder(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

// Whether `id` is the job that the user means: an id is the name and a number.
bool IsMeant(const std::string& id, const std::string& job) {
  if (id == job) return true;
  if (!id.starts_with(job + "-")) return false;
  return ParseUint64(std::string_view(id).substr(job.size() + 1)).ok();
}

// Chooses among the jobs of a log, oldest first.
Result<std::string> Choose(const std::vector<std::string>& jobs, const std::string& job,
                           const std::string& place, bool newest) {
  if (jobs.empty()) {
    return NotFound(place + " has no job yet: run it again when the job has been submitted");
  }
  std::vector<std::string> meant;
  for (const std::string& id : jobs) {
    if (job.empty() || IsMeant(id, job)) meant.push_back(id);
  }
  if (!meant.empty() && (newest || !job.empty() || meant.size() == 1)) return meant.back();
  constexpr size_t kShown = 10;
  std::vector<std::string> shown(jobs.end() - static_cast<ptrdiff_t>(std::min(kShown, jobs.size())),
                                 jobs.end());
  const std::string known = Join(shown, ", ");
  if (meant.empty()) {
    return NotFound(place + " has no job " + Printable(job) + ": it has " + known);
  }
  return InvalidArgument(place + " has " + std::to_string(jobs.size()) +
                         " jobs: name one with --job, for example one of " + known);
}

Result<story::RunRecord> RecordOfLog(const std::string& path, const std::string& job, bool newest,
                                     const TakeNotification& also) {
  ASSIGN_OR_RETURN(const auto log, service::EventLogReader::Open(path));
  ASSIGN_OR_RETURN(const std::vector<std::string> jobs, log->Jobs());
  ASSIGN_OR_RETURN(const std::string id, Choose(jobs, job, path, newest));
  story::RunRecorder recorder(id);
  std::vector<std::string> notes;
  const Status notified = log->Notifications([&](const proto::Notification& each) {
    recorder.TakeNotification(each);
    if (also != nullptr && each.job_id() == id) also(each);
  });
  const Status happened = log->Events([&recorder](Instant now, const proto::Event& event) {
    recorder.TakeEvent(ToNanoseconds(now), event);
  });
  story::RunRecord record = recorder.Record();
  for (const Status& status : {notified, happened}) {
    if (status.ok()) continue;
    record.notes.push_back("The event log is damaged, and what follows the damage is missing (" +
                           status.message() + ").");
  }
  if (log->unreadable_rows() > 0) {
    record.notes.push_back(Plural(log->unreadable_rows(), "row") +
                           " of the event log could not be read.");
  }
  return record;
}

// A report is the one of this record if its times enclose the end of the job: the report of an
// earlier run lies there until the run that resumed it ends.
bool BelongsTo(const Json& report, const story::RunRecord& record) {
  int64_t ended_ns = 0;
  for (const proto::Notification& each : record.notifications) {
    if (each.kind_case() == proto::Notification::kState) ended_ns = each.at_ns();
  }
  const auto run = report.find("run");
  if (run == report.end() || !run->is_object()) return false;
  const auto started = run->find("started_at");
  const auto seconds = run->find("process_seconds");
  if (started == run->end() || !started->is_string()) return false;
  if (seconds == run->end() || !seconds->is_number()) return false;
  const Result<Instant> from = ParseInstant(started->get<std::string>());
  const double length = seconds->get<double>();
  if (!from.ok() || !(length >= 0 && length < 1e9)) return false;
  constexpr Duration kRounding = std::chrono::seconds(1);
  const Instant end = InstantFromNanoseconds(ended_ns);
  return end >= *from - kRounding && end <= *from + DurationFromSeconds(length) + kRounding;
}

void AddReport(const std::string& path, story::RunRecord& record) {
  if (!IsFile(path)) return;
  const Result<std::string> text = io::ReadText(path, kLargestReport);
  const Result<story::RunTotals> totals =
      text.ok() ? ParseReport(*text) : Result<story::RunTotals>(text.status());
  if (!totals.ok()) {
    record.notes.push_back("The report was not used: " + totals.status().message() + ".");
    return;
  }
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (BelongsTo(json, record)) record.totals = *totals;
}

double NumberOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0.0;
}

std::string TextOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

uint64_t CountOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

}  // namespace

Result<story::RunRecord> ReadRun(const std::string& path, const std::string& job,
                                 const TakeNotification& also) {
  std::error_code error;
  std::string folder = std::filesystem::absolute(path, error).lexically_normal().string();
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  if (error || !IsFolder(folder)) {
    return NotFound("there is no run directory " + Printable(path) +
                    ": name one, such as runs/NAME, or a job with --controller URL");
  }
  const std::string own = folder + "/cluster/events.db";
  const std::string bare = folder + "/events.db";
  if (!IsFile(own) && IsFile(bare)) return RecordOfLog(bare, job, /*newest=*/false, also);
  const std::string lines = folder + "/events.jsonl";
  if (!IsFile(own) && !IsFile(lines)) {
    return NotFound(folder +
                    " has neither cluster/events.db nor events.jsonl, so it is not the directory "
                    "of a run: name one, such as runs/NAME");
  }
  Result<story::RunRecord> record = story::RunRecord();
  if (IsFile(own)) {
    record = RecordOfLog(own, job, /*newest=*/true, also);
  } else {
    ASSIGN_OR_RETURN(const std::string text, io::ReadText(lines, kLargestLines));
    record = RecordOfLines(text, job, also);
  }
  if (!record.ok()) return record.status();
  record->run_directory = folder;
  AddReport(folder + "/report.json", *record);
  return record;
}

Result<story::RunRecord> RecordOfLines(std::string_view text, const std::string& job,
                                       const TakeNotification& also) {
  std::vector<proto::Notification> notifications;
  std::vector<std::string> jobs;
  uint64_t unreadable = 0;
  bool cut = false;
  for (const std::string_view line : Split(text, '\n')) {
    if (line.empty()) continue;
    proto::Notification notification;
    if (!proto::FromJson(line, &notification).ok()) {
      // Only the last line has nothing behind it: not even the end of a line.
      cut = line.data() + line.size() == text.data() + text.size();
      unreadable += cut ? 0 : 1;
      continue;
    }
    const std::string& id = notification.job_id();
    // A resumed run appends a job of its own, which is then the newest one.
    if (!id.empty() && (jobs.empty() || jobs.back() != id)) {
      std::erase(jobs, id);
      jobs.push_back(id);
    }
    notifications.push_back(std::move(notification));
  }
  ASSIGN_OR_RETURN(const std::string id, Choose(jobs, job, "events.jsonl", /*newest=*/true));
  story::RunRecorder recorder(id);
  for (const proto::Notification& each : notifications) {
    recorder.TakeNotification(each);
    if (also != nullptr && each.job_id() == id) also(each);
  }
  story::RunRecord record = recorder.Record();
  if (cut) {
    record.notes.push_back(
        "The last line of events.jsonl is cut off; what followed it is missing.");
  }
  if (unreadable > 0) {
    record.notes.push_back(Plural(unreadable, "line") + " of events.jsonl could not be read.");
  }
  return record;
}

Result<story::RunTotals> ParseReport(std::string_view json) {
  const Json report = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!report.is_object() || !report.contains("ledger") || !report["ledger"].is_object()) {
    return InvalidArgument("report.json is not the report of a run");
  }
  story::RunTotals totals;
  totals.state = TextOf(report, "state");
  totals.reason = TextOf(report, "reason");
  totals.goodput = NumberOf(report, "goodput");
  totals.ranks = NumberOf(report, "mean_ranks");
  const auto categories = report["ledger"].find("categories");
  if (categories != report["ledger"].end() && categories->is_object()) {
    for (const auto& [name, value] : categories->items()) {
      if (value.is_object()) totals.categories.push_back({name, NumberOf(value, "seconds")});
    }
  }
  const auto snapshots = report.find("snapshots");
  if (snapshots != report.end() && snapshots->is_object()) {
    totals.snapshots = CountOf(*snapshots, "in_memory");
    totals.interval_steps = CountOf(*snapshots, "interval_steps");
  }
  return totals;
}

void ReadOutputs(const story::Story& story, story::RunRecord& record) {
  if (record.run_directory.empty()) return;
  for (const story::FaultStory& fault : story.faults) {
    const std::optional<story::WantedOutput> wanted = story::OutputOf(fault);
    if (!wanted.has_value()) continue;
    const std::string text =
        service::LastLines(record.run_directory + "/" + story::OutputFile(*wanted), /*begin=*/0);
    std::vector<std::string>& lines = record.outputs[{wanted->attempt, wanted->rank}];
    lines.clear();
    if (text.empty()) continue;
    for (const std::string_view line : Split(text, '\n')) lines.emplace_back(line);
  }
}

}  // namespace longhaul::frontend
