#include "scheduler/traces/pollux.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "scheduler/traces/csv_reader.h"

namespace longhaul::scheduler {

namespace {

constexpr int64_t kMaxSeconds = int64_t{1} << 33;  // 272 years
constexpr int64_t kMaxGpus = 16'384;
constexpr int64_t kMaxBatch = 1'000'000'000;
constexpr int64_t kMaxIterations = 1'000'000'000'000;
constexpr int64_t kMaxStepSeconds = 86'400;
constexpr int64_t kGpusOfHost = 4;  // of the measured cluster
constexpr size_t kMaxNameBytes = 63;
constexpr size_t kMaxPlaceDigits = 64;  // digits of a placement

bool IsFolderName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
             std::string_view::npos;
}

// GPUs of one task.
int64_t TaskGpus(int64_t gpus) {
  if (gpus <= kGpusOfHost) return gpus;
  int64_t each = kGpusOfHost;
  while (gpus % each != 0) --each;
  return each;
}

}  // namespace

Result<std::vector<PolluxJob>> ReadPolluxWorkload(std::string_view text, std::string_view source) {
  ASSIGN_OR_RETURN(
      CsvReader row,
      CsvReader::Open(text, source, {"name", "time", "application", "num_replicas", "batch_size"}));
  std::vector<PolluxJob> jobs;
  while (row.Next()) {
    PolluxJob job;
    job.name = std::string(row.Field(0));
    ASSIGN_OR_RETURN(job.arrival_ms, row.Thousandths(1, kMaxSeconds * 1'000));
    if (!IsFolderName(row.Field(2))) {
      return row.Refuse(2, "'" + Printable(row.Field(2), 40) +
                               "' is not a name of 1 to 63 letters, digits, '-' and '_'");
    }
    job.application = std::string(row.Field(2));
    ASSIGN_OR_RETURN(job.gpus, row.Whole(3, 1, kMaxGpus));
    ASSIGN_OR_RETURN(job.batch, row.Whole(4, 1, kMaxBatch));
    if (job.batch < job.gpus) {
      return row.Refuse(4, std::to_string(job.batch) + " is less than one for each of " +
                               std::to_string(job.gpus) + " GPUs");
    }
    jobs.push_back(std::move(job));
  }
  RETURN_IF_ERROR(row.status());
  return jobs;
}

Status PolluxTimes::AddPlacements(const std::string& application, std::string_view text,
                                  std::string_view source) {
  ASSIGN_OR_RETURN(
      CsvReader row,
      CsvReader::Open(text, source, {"placement", "local_bsz", "step_time", "sync_time"}));
  while (row.Next()) {
    std::string hosts(row.Field(0));
    if (hosts.empty() || hosts.size() > kMaxPlaceDigits ||
        hosts.find_first_not_of("123456789") != std::string::npos) {
      return row.Refuse(0, "'" + Printable(hosts, 40) +
                               "' is not a placement: a digit of 1 to 9 for each of 1 to 64 hosts");
    }
    std::sort(hosts.begin(), hosts.end());
    int64_t gpus = 0;
    for (const char digit : hosts) gpus += digit - '0';
    ASSIGN_OR_RETURN(const int64_t batch, row.Whole(1, 1, kMaxBatch));
    Step step;
    ASSIGN_OR_RETURN(step.step_us, row.Millionths(2, kMaxStepSeconds * 1'000'000));
    ASSIGN_OR_RETURN(step.sync_us, row.Millionths(3, kMaxStepSeconds * 1'000'000));
    if (step.sync_us > step.step_us) return row.Refuse(3, "is longer than the step");
    applications_[application].steps[gpus][{hosts.size(), hosts}][batch] = step;
  }
  return row.status();
}

Status PolluxTimes::AddScalability(const std::string& application, std::string_view text,
                                   std::string_view source) {
  ASSIGN_OR_RETURN(CsvReader row, CsvReader::Open(text, source,
                                                  {"num_nodes", "num_replicas", "local_bsz",
                                                   "step_time", "sync_time"}));
  while (row.Next()) {
    ASSIGN_OR_RETURN(const int64_t hosts, row.Whole(0, 1, kMaxGpus));
    ASSIGN_OR_RETURN(const int64_t gpus, row.Whole(1, hosts, kMaxGpus));
    ASSIGN_OR_RETURN(const int64_t batch, row.Whole(2, 1, kMaxBatch));
    // How the GPUs lie on the hosts is not in the table. '~' is behind every known placement.
    Step step;
    ASSIGN_OR_RETURN(step.step_us, row.Millionths(3, kMaxStepSeconds * 1'000'000));
    ASSIGN_OR_RETURN(step.sync_us, row.Millionths(4, kMaxStepSeconds * 1'000'000));
    if (step.sync_us > step.step_us) return row.Refuse(4, "is longer than the step");
    applications_[application].steps[gpus][{static_cast<size_t>(hosts), "~"}][batch] = step;
  }
  return row.status();
}

Status PolluxTimes::AddTraining(const std::string& application, int64_t batch,
                                std::string_view text, std::string_view source) {
  ASSIGN_OR_RETURN(CsvReader row, CsvReader::Open(text, source, {"iteration"}));
  int64_t last = 0;
  while (row.Next()) {
    ASSIGN_OR_RETURN(last, row.Whole(0, std::max<int64_t>(1, last), kMaxIterations));
  }
  RETURN_IF_ERROR(row.status());
  if (last == 0) return InvalidArgument(std::string(source) + ":2:1: the table has no epoch");
  applications_[application].iterations[batch] = last;
  return {};
}

Result<int64_t> PolluxTimes::DurationMs(const PolluxJob& job) const {
  const auto missing = [&](const std::string& what) {
    return NotFound("job " + Printable(job.name, 63) + ": no time of application '" +
                    Printable(job.application, 63) + "' was measured" + what);
  };
  const auto application = applications_.find(job.application);
  if (application == applications_.end()) return missing("");
  const auto iterations = application->second.iterations.find(job.batch);
  if (iterations == application->second.iterations.end()) {
    return missing(" with a batch of " + WithThousands(job.batch));
  }
  const auto placements = application->second.steps.find(job.gpus);
  if (placements == application->second.steps.end()) {
    return missing(" on " + WithThousands(job.gpus) + " GPUs");
  }
  const std::map<int64_t, Step>& steps = placements->second.begin()->second;
  const double all = static_cast<double>(job.batch) / static_cast<double>(job.gpus);
  const double passes = std::ceil(all / static_cast<double>(steps.rbegin()->first));
  const double batch = all / passes;
  // The measured batches on both sides of it.
  auto above = std::find_if(steps.begin(), steps.end(), [&](const auto& entry) {
    return static_cast<double>(entry.first) >= batch;
  });
  if (above == steps.end()) --above;  // by rounding
  const auto below = above == steps.begin() ? above : std::prev(above);
  const double width = static_cast<double>(above->first - below->first);
  const double part =
      width == 0 ? 0 : std::clamp((batch - static_cast<double>(below->first)) / width, 0.0, 1.0);
  const auto between = [&](int64_t Step::*time) {
    const auto from = static_cast<double>(below->second.*time);
    return from + part * (static_cast<double>(above->second.*time) - from);
  };
  const double step_us = between(&Step::step_us);
  const double iteration_us = step_us + (passes - 1) * (step_us - between(&Step::sync_us));
  const double seconds = static_cast<double>(iterations->second) * iteration_us / 1e6;
  if (!(seconds <= static_cast<double>(kMaxSeconds))) {
    return InvalidArgument("job " + Printable(job.name, 63) + " would run for more than 272 years");
  }
  return static_cast<int64_t>(seconds * 1'000);
}

Result<std::vector<TraceJob>> WithDurations(const std::vector<PolluxJob>& jobs,
                                            const PolluxTimes& times) {
  std::vector<TraceJob> timed;
  for (const PolluxJob& from : jobs) {
    TraceJob& job = timed.emplace_back();
    job.name = from.name;
    job.user = from.application;
    job.arrival_ms = from.arrival_ms;
    ASSIGN_OR_RETURN(job.duration_ms, times.DurationMs(from));
    const int64_t each = TaskGpus(from.gpus);
    job.task.gpus = static_cast<uint32_t>(each);
    job.tasks = static_cast<uint32_t>(from.gpus / each);
  }
  SortByArrival(timed);
  return timed;
}

}  // namespace longhaul::scheduler
