#include "bin/tools/trace_input.h"

#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "io/files/file.h"
#include "scheduler/traces/csv_reader.h"
#include "scheduler/traces/pollux.h"
#include "scheduler/traces/sacct.h"
#include "scheduler/workload/simulation.h"
#include "spec/cluster/cluster_file.h"

namespace longhaul::bin {

namespace {

constexpr size_t kMaxClusterBytes = size_t{64} << 20;

std::string_view FirstLine(std::string_view text) {
  std::string_view line = text.substr(0, text.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool HasColumn(std::string_view header, std::string_view name) {
  for (const std::string_view column : Split(header, ',')) {
    if (column == name) return true;
  }
  return false;
}

// Empty: no format has this header.
std::string FormatOf(std::string_view header) {
  if (header.find('|') != std::string_view::npos) return "sacct";
  if (HasColumn(header, "num_gpus") && HasColumn(header, "timestamp")) return "philly";
  if (HasColumn(header, "num_gpu") && HasColumn(header, "gpu_milli")) return "openb";
  if (HasColumn(header, "instance_sn")) return "dlrm";
  if (HasColumn(header, "application") && HasColumn(header, "num_replicas")) return "pollux";
  return "";
}

std::string Count(size_t number, const std::string& noun) {
  return WithThousands(static_cast<int64_t>(number)) + " " + noun + (number == 1 ? "" : "s");
}

// The tables of the applications and batches that the jobs name.
Result<scheduler::PolluxTimes> ReadMeasured(const std::vector<scheduler::PolluxJob>& jobs,
                                            const std::string& folder) {
  scheduler::PolluxTimes times;
  std::map<std::string, std::set<int64_t>> batches;
  for (const scheduler::PolluxJob& job : jobs) batches[job.application].insert(job.batch);
  const auto read = [&](const std::string& path, const auto& add) -> Status {
    ASSIGN_OR_RETURN(const std::string text, io::ReadText(path, scheduler::CsvReader::kMaxBytes));
    return add(text, path);
  };
  for (const auto& [application, of] : batches) {
    const std::string base = folder + "/" + application + "/";
    RETURN_IF_ERROR(read(base + "placements.csv", [&](const auto& text, const auto& path) {
      return times.AddPlacements(application, text, path);
    }));
    RETURN_IF_ERROR(read(base + "scalability.csv", [&](const auto& text, const auto& path) {
      return times.AddScalability(application, text, path);
    }));
    for (const int64_t batch : of) {
      const std::string path = base + "validation-" + std::to_string(batch) + ".csv";
      RETURN_IF_ERROR(read(path, [&](const auto& text, const auto& from) {
        return times.AddTraining(application, batch, text, from);
      }));
    }
  }
  return times;
}

Status ReadPollux(const std::string& text, const std::string& file, const std::string& measured,
                  TraceInput& input) {
  if (measured.empty()) {
    return InvalidArgument(file +
                           ": a workload of Pollux has no durations; name the folder of its "
                           "measured times with --measured");
  }
  ASSIGN_OR_RETURN(const auto jobs, scheduler::ReadPolluxWorkload(text, file));
  ASSIGN_OR_RETURN(const scheduler::PolluxTimes times, ReadMeasured(jobs, measured));
  ASSIGN_OR_RETURN(input.jobs, scheduler::WithDurations(jobs, times));
  input.notes.push_back(
      "durations are computed from the measured times: each job keeps its number of GPUs and its "
      "batch, and runs as on the densest placement");
  return {};
}

Status ReadJobs(const std::string& text, const std::string& file, TraceInput& input) {
  if (input.format == "sacct") {
    ASSIGN_OR_RETURN(scheduler::SacctJobs read, scheduler::ReadSacct(text, file));
    input.jobs = std::move(read.jobs);
    if (read.steps > 0) input.notes.push_back("left out: " + Count(read.steps, "job step"));
    if (read.never_started > 0) {
      input.notes.push_back("left out: " + Count(read.never_started, "job") + " that never ran");
    }
    return {};
  }
  auto read = input.format == "philly"  ? scheduler::ReadPhilly(text, file)
              : input.format == "openb" ? scheduler::ReadOpenbTasks(text, file)
                                        : scheduler::ReadDlrm(text, file);
  ASSIGN_OR_RETURN(input.jobs, std::move(read));
  scheduler::SortByArrival(input.jobs);
  return {};
}

}  // namespace

std::vector<std::string> TraceFormats() {
  return {"auto", "philly", "openb", "dlrm", "sacct", "pollux"};
}

Result<TraceInput> ReadTrace(const std::string& file, const std::string& format,
                             const std::string& month, const std::string& measured) {
  ASSIGN_OR_RETURN(const std::string text, io::ReadText(file, scheduler::CsvReader::kMaxBytes));
  TraceInput input;
  input.format = format == "auto" ? FormatOf(FirstLine(text)) : format;
  if (input.format.empty()) {
    std::vector<std::string> known = TraceFormats();
    known.erase(known.begin());  // "auto"
    return InvalidArgument(file + ": the first line shows none of the known formats (" +
                           Join(known, ", ") + "): '" + Printable(FirstLine(text), 80) +
                           "'; name the format with --format");
  }
  if (input.format == "pollux") {
    RETURN_IF_ERROR(ReadPollux(text, file, measured, input));
  } else if (!measured.empty()) {
    return InvalidArgument("--measured is for the format pollux; " + file + " is in the format " +
                           input.format + ", which has durations");
  } else {
    RETURN_IF_ERROR(ReadJobs(text, file, input));
  }
  if (!month.empty()) {
    ASSIGN_OR_RETURN(input.jobs, scheduler::workload::OfMonth(input.jobs, month));
  }
  if (input.jobs.empty()) {
    return NotFound(file + " has no job" + (month.empty() ? "" : " in " + month));
  }
  return input;
}

Result<spec::ClusterDeclaration> ReadTraceCluster(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, io::ReadText(file, kMaxClusterBytes));
  if (!HasColumn(FirstLine(text), "sn")) return spec::ParseClusterFile(text, file);
  ASSIGN_OR_RETURN(spec::ClusterDeclaration cluster, scheduler::ReadOpenbNodes(text, file));
  RETURN_IF_ERROR(spec::Topology::Create(cluster).status());
  return cluster;
}

void DropUndeclaredNeeds(TraceInput& input) {
  size_t dropped = 0;
  for (scheduler::TraceJob& job : input.jobs) {
    if (job.task.models.empty() && job.task.counted.empty()) continue;
    job.task.models.clear();
    job.task.counted.clear();
    ++dropped;
  }
  if (dropped == 0) return;
  input.notes.push_back("without --cluster, " + Count(dropped, "job") +
                        " may use any device model and no counted resources");
}

}  // namespace longhaul::bin
