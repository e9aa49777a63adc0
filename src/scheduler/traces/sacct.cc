#include "scheduler/traces/sacct.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "scheduler/traces/csv_reader.h"
#include "scheduler/traces/timestamp.h"

namespace longhaul::scheduler {

namespace {

constexpr int64_t kMaxRunSeconds = int64_t{1} << 33;  // 272 years
constexpr int64_t kMaxNodes = 65'536;
constexpr int64_t kMaxTresGpus = 1'048'576;
constexpr int64_t kMaxCores = 2'000'000;
constexpr int64_t kMaxMemoryMib = int64_t{1} << 40;

enum Column : size_t {
  kSubmit,
  kJobIdRaw,
  kJobId,
  kElapsedRaw,
  kElapsed,
  kReqTres,
  kAllocTres,
  kAccount,
  kUser,
  kState,
  kTimelimitRaw,
  kTimelimit,
  kNodes,
};

// What "cpu=32,gres/gpu=16,mem=512G,node=2" states; -1: not stated.
struct Tres {
  int64_t nodes = -1;
  int64_t gpus = -1;        // of any type
  int64_t typed_gpus = -1;  // the sum over the types
  int64_t cores = -1;
  int64_t memory_mib = -1;
  std::set<std::string> types;
};

// "[DAYS-]HOURS:MINUTES:SECONDS" or "MINUTES:SECONDS" in seconds.
std::optional<int64_t> ParseElapsed(std::string_view text) {
  int64_t days = 0;
  const size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto number = ParseUint64(text.substr(0, dash));
    if (!number.ok() || *number > 100'000) return std::nullopt;
    days = static_cast<int64_t>(*number);
    text = text.substr(dash + 1);
  }
  const std::vector<std::string_view> parts = Split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  int64_t seconds = 0;
  for (const std::string_view part : parts) {
    const auto number = ParseUint64(part.substr(0, part.find('.')));
    if (!number.ok() || *number > 1'000'000) return std::nullopt;
    seconds = seconds * 60 + static_cast<int64_t>(*number);
  }
  return days * 86'400 + seconds;
}

// "512G", "2048M", "1.5T" or "900" (MiB) in MiB, rounded down.
std::optional<int64_t> ParseMemory(std::string_view text) {
  if (text.empty()) return std::nullopt;
  constexpr std::string_view kUnits = "KMGTP";
  size_t unit = kUnits.find(text.back());
  if (unit == std::string_view::npos) {
    unit = 1;
  } else {
    text.remove_suffix(1);
  }
  const auto number = ParseDouble(text);
  if (!number.ok() || *number < 0) return std::nullopt;
  double mib = *number / 1'024;
  for (size_t i = 0; i < unit; ++i) mib *= 1'024;
  if (!(mib <= static_cast<double>(kMaxMemoryMib))) return std::nullopt;
  return static_cast<int64_t>(mib);
}

Status ReadAmount(const CsvReader& row, Column column, std::string_view entry,
                  std::string_view value, int64_t max, int64_t& amount) {
  const auto number = ParseUint64(value);
  if (!number.ok() || *number > static_cast<uint64_t>(max)) {
    return row.Refuse(
        column, "'" + Printable(entry, 60) + "' is not a whole number up to " + WithThousands(max));
  }
  amount = static_cast<int64_t>(*number);
  return {};
}

Status ReadTresEntry(const CsvReader& row, Column column, std::string_view entry, Tres& tres) {
  constexpr std::string_view kTyped = "gres/gpu:";
  const size_t equals = entry.find('=');
  if (equals == std::string_view::npos) {
    return row.Refuse(column, "'" + Printable(entry, 60) + "' is not NAME=AMOUNT");
  }
  const std::string_view name = entry.substr(0, equals);
  const std::string_view value = entry.substr(equals + 1);
  if (name == "node") return ReadAmount(row, column, entry, value, kMaxNodes, tres.nodes);
  if (name == "cpu") return ReadAmount(row, column, entry, value, kMaxCores, tres.cores);
  if (name == "gres/gpu") return ReadAmount(row, column, entry, value, kMaxTresGpus, tres.gpus);
  if (name == "mem") {
    const auto memory = ParseMemory(value);
    if (!memory) {
      return row.Refuse(column, "'" + Printable(entry, 60) + "' is not an amount such as mem=64G");
    }
    tres.memory_mib = *memory;
    return {};
  }
  if (!name.starts_with(kTyped)) return {};  // billing, energy, licenses and the like
  int64_t gpus = 0;
  RETURN_IF_ERROR(ReadAmount(row, column, entry, value, kMaxTresGpus, gpus));
  tres.typed_gpus = std::min(std::max<int64_t>(0, tres.typed_gpus) + gpus, kMaxTresGpus);
  const std::string_view type = name.substr(kTyped.size());
  if (type.empty() || type.size() > 63) {
    return row.Refuse(column, "'" + Printable(entry, 60) + "' names no type of GPU");
  }
  if (gpus > 0) tres.types.emplace(type);
  return {};
}

// The request rather than the allocation where both are there: an allocation shows what the other
// scheduler gave.
Result<Tres> ReadTres(const CsvReader& row) {
  const Column column = row.Field(kReqTres).empty() ? kAllocTres : kReqTres;
  Tres tres;
  if (row.Field(column).empty()) return tres;
  for (const std::string_view entry : Split(row.Field(column), ',')) {
    RETURN_IF_ERROR(ReadTresEntry(row, column, entry, tres));
  }
  return tres;
}

Status ReadNeeds(const CsvReader& row, TraceJob& job) {
  ASSIGN_OR_RETURN(Tres tres, ReadTres(row));
  int64_t nodes = tres.nodes;
  if (nodes < 0 && !row.Field(kNodes).empty()) {
    ASSIGN_OR_RETURN(nodes, row.Whole(kNodes, 0, kMaxNodes));
  }
  nodes = std::max<int64_t>(1, nodes);
  const int64_t gpus = std::max<int64_t>(0, tres.gpus >= 0 ? tres.gpus : tres.typed_gpus);
  // One task for each node where the GPUs divide evenly; otherwise one for each GPU, since how they
  // were divided is unknown.
  const int64_t tasks = gpus % nodes == 0 ? nodes : gpus;
  const int64_t each = gpus / tasks;
  if (each > static_cast<int64_t>(spec::kMaxDevices)) {
    return row.Refuse(
        row.Field(kReqTres).empty() ? kAllocTres : kReqTres,
        std::to_string(each) + " GPUs on a node: at most " + std::to_string(spec::kMaxDevices));
  }
  job.tasks = static_cast<uint32_t>(tasks);
  job.task.gpus = static_cast<uint32_t>(each);
  job.task.cpu_milli = std::max<int64_t>(0, tres.cores) * 1'000 / tasks;
  job.task.memory_mib = std::max<int64_t>(0, tres.memory_mib) / tasks;
  if (gpus > 0) job.task.models = std::move(tres.types);
  return {};
}

// Seconds; nothing where neither column has a value, or where the limit is not a time
// ("UNLIMITED", "Partition_Limit").
Result<std::optional<int64_t>> ReadLimit(const CsvReader& row) {
  std::optional<int64_t> none;
  if (!row.Field(kTimelimitRaw).empty()) {
    const auto minutes = ParseUint64(row.Field(kTimelimitRaw));
    if (!minutes.ok()) return none;
    if (*minutes > static_cast<uint64_t>(kMaxRunSeconds / 60)) {
      return row.Refuse(kTimelimitRaw, "is beyond 272 years");
    }
    return std::optional(static_cast<int64_t>(*minutes) * 60);
  }
  return row.Field(kTimelimit).empty() ? none : ParseElapsed(row.Field(kTimelimit));
}

Result<int64_t> ReadElapsed(const CsvReader& row) {
  if (!row.Field(kElapsedRaw).empty()) return row.Whole(kElapsedRaw, 0, kMaxRunSeconds);
  const auto seconds = ParseElapsed(row.Field(kElapsed));
  if (seconds) return *seconds;
  return row.Refuse(
      kElapsed, "'" + Printable(row.Field(kElapsed), 40) + "' is not a time such as 1-02:03:04");
}

bool IsStep(std::string_view id) { return id.find('.') != std::string_view::npos; }

Result<TraceJob> ReadJob(const CsvReader& row, std::string_view id) {
  TraceJob job;
  job.name = std::string(id);
  job.tenant = std::string(row.Field(row.Field(kAccount).empty() ? kUser : kAccount));
  job.user = std::string(row.Field(kUser));
  const auto submitted = ParseTimestamp(row.Field(kSubmit), 'T');
  if (!submitted || *submitted < 0) {
    return row.Refuse(kSubmit, "'" + Printable(row.Field(kSubmit), 40) +
                                   "' is not a time such as 2026-01-03T10:00:00");
  }
  job.arrival_ms = job.clock_ms = *submitted * 1'000;
  if (row.Field(kState) != "RUNNING") {
    ASSIGN_OR_RETURN(const int64_t elapsed, ReadElapsed(row));
    job.duration_ms = elapsed * 1'000;
  }
  ASSIGN_OR_RETURN(const auto limit, ReadLimit(row));
  if (limit && *limit > 0) job.limit_ms = *limit * 1'000;
  RETURN_IF_ERROR(ReadNeeds(row, job));
  return job;
}

Status NeedsOneOf(std::string_view source, const char* first, const char* second) {
  return InvalidArgument(std::string(source) + ":1:1: the header lacks the column '" + first +
                         "', or '" + second + "'");
}

}  // namespace

Result<SacctJobs> ReadSacct(std::string_view text, std::string_view source) {
  const std::vector<std::string_view> optional = {
      "JobIDRaw", "JobID", "ElapsedRaw", "Elapsed",      "ReqTRES",   "AllocTRES",
      "Account",  "User",  "State",      "TimelimitRaw", "Timelimit", "NNodes"};
  ASSIGN_OR_RETURN(CsvReader row, CsvReader::Open(text, source, {"Submit"}, optional, '|'));
  if (!row.Has(kJobIdRaw) && !row.Has(kJobId)) return NeedsOneOf(source, "JobIDRaw", "JobID");
  if (!row.Has(kElapsedRaw) && !row.Has(kElapsed)) {
    return NeedsOneOf(source, "ElapsedRaw", "Elapsed");
  }
  if (!row.Has(kReqTres) && !row.Has(kAllocTres)) return NeedsOneOf(source, "ReqTRES", "AllocTRES");
  SacctJobs read;
  while (row.Next()) {
    const std::string_view id = row.Field(row.Field(kJobIdRaw).empty() ? kJobId : kJobIdRaw);
    if (IsStep(id) || IsStep(row.Field(kJobId))) {
      ++read.steps;
      continue;
    }
    ASSIGN_OR_RETURN(TraceJob job, ReadJob(row, id));
    if (job.duration_ms == 0) {
      ++read.never_started;
      continue;
    }
    read.jobs.push_back(std::move(job));
  }
  RETURN_IF_ERROR(row.status());
  SortByArrival(read.jobs);
  return read;
}

}  // namespace longhaul::scheduler
