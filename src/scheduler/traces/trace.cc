#include "scheduler/traces/trace.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/text.h"
#include "scheduler/traces/csv_reader.h"
#include "scheduler/traces/timestamp.h"

namespace longhaul::scheduler {

namespace {

constexpr int64_t kMaxMilli = 2'000'000'000;
constexpr int64_t kMaxJobSeconds = int64_t{1} << 33;  // 272 years
constexpr int64_t kMaxJobGpus = 16'384;

// Sets arrival and duration from the two times; absent ones are before and beyond the trace.
Status ReadLife(const CsvReader& row, size_t creation, size_t deletion, TraceJob& job) {
  ASSIGN_OR_RETURN(const auto from_ms, row.ThousandthsOrEmpty(creation, kMaxJobSeconds * 1'000));
  ASSIGN_OR_RETURN(const auto until_ms, row.ThousandthsOrEmpty(deletion, kMaxJobSeconds * 1'000));
  job.arrival_ms = from_ms.value_or(0);
  if (!until_ms) return {};
  if (*until_ms < job.arrival_ms) return row.Refuse(deletion, "is before the creation");
  job.duration_ms = *until_ms - job.arrival_ms;
  return {};
}

Status ReadOpenbNeeds(const CsvReader& row, TraceJob& job) {
  ASSIGN_OR_RETURN(job.task.cpu_milli, row.Whole(1, 0, kMaxMilli));
  ASSIGN_OR_RETURN(job.task.memory_mib, row.Whole(2, 0, kMaxMilli));
  ASSIGN_OR_RETURN(const int64_t gpus, row.Whole(3, 0, spec::kMaxDevices));
  ASSIGN_OR_RETURN(const int64_t milli, row.Whole(4, 0, kWholeGpu));
  if (gpus == 0) return {};
  if (gpus > 1 && milli != kWholeGpu) return row.Refuse(4, "a share needs num_gpu to be 1");
  if (milli == 0) return row.Refuse(4, "a task with a GPU needs a share of it");
  if (gpus == 1 && milli < kWholeGpu) {
    job.task.share_milli = static_cast<uint32_t>(milli);
  } else {
    job.task.gpus = static_cast<uint32_t>(gpus);
  }
  if (row.Field(5).empty()) return {};
  for (const std::string_view model : Split(row.Field(5), '|')) {
    if (model.empty()) return row.Refuse(5, "has an empty model");
    job.task.models.emplace(model);
  }
  return {};
}

}  // namespace

void SortByArrival(std::vector<TraceJob>& jobs) {
  std::stable_sort(jobs.begin(), jobs.end(), [](const TraceJob& a, const TraceJob& b) {
    return a.arrival_ms < b.arrival_ms;
  });
  if (jobs.empty()) return;
  const int64_t first = jobs.front().arrival_ms;
  for (TraceJob& job : jobs) job.arrival_ms -= first;
}

Result<spec::ClusterDeclaration> ReadOpenbNodes(std::string_view text, std::string_view source) {
  ASSIGN_OR_RETURN(
      CsvReader row,
      CsvReader::Open(text, source, {"sn", "cpu_milli", "memory_mib", "gpu", "model"}));
  spec::ClusterDeclaration cluster;
  cluster.name = "openb";
  std::map<std::string, uint16_t, std::less<>> models;
  std::map<std::array<int64_t, 4>, uint32_t> kinds;  // cpu, memory, GPUs, model
  while (row.Next()) {
    spec::DeclaredNode node;
    node.name = std::string(row.Field(0));
    node.domains = {"", ""};
    ASSIGN_OR_RETURN(const int64_t cpu, row.Whole(1, 0, kMaxMilli));
    ASSIGN_OR_RETURN(const int64_t memory, row.Whole(2, 0, kMaxMilli));
    ASSIGN_OR_RETURN(const int64_t gpus, row.Whole(3, 0, spec::kMaxDevices));
    uint16_t model = 0;
    if (gpus > 0) {
      if (row.Field(4).empty()) return row.Refuse(4, "a node with GPUs needs their model");
      const auto next = static_cast<uint16_t>(models.size());
      const auto [it, fresh] = models.try_emplace(std::string(row.Field(4)), next);
      if (fresh && models.size() > spec::kMaxDeviceModels) return row.Refuse(4, "too many models");
      if (fresh) cluster.models.push_back({it->first, 0});
      model = it->second;
    }
    const auto next = static_cast<uint32_t>(kinds.size());
    const auto [it, fresh] = kinds.try_emplace({cpu, memory, gpus, model}, next);
    if (fresh) {
      const std::string name = "kind-" + std::to_string(next + 1);
      spec::NodeKind kind;
      if (gpus > 0) {
        kind = spec::UniformKind(name, model, static_cast<uint32_t>(gpus), 1, cpu, memory);
      }
      kind.name = name;
      kind.cpu_milli = cpu;
      kind.memory_mib = memory;
      cluster.kinds.push_back(std::move(kind));
    }
    node.kind = it->second;
    cluster.nodes.push_back(std::move(node));
  }
  RETURN_IF_ERROR(row.status());
  return cluster;
}

Result<std::vector<TraceJob>> ReadOpenbTasks(std::string_view text, std::string_view source) {
  ASSIGN_OR_RETURN(
      CsvReader row,
      CsvReader::Open(text, source, {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"},
                      {"gpu_spec", "creation_time", "deletion_time"}));
  std::vector<TraceJob> jobs;
  while (row.Next()) {
    TraceJob job;
    job.name = std::string(row.Field(0));
    RETURN_IF_ERROR(ReadOpenbNeeds(row, job));
    RETURN_IF_ERROR(ReadLife(row, 6, 7, job));
    jobs.push_back(std::move(job));
  }
  RETURN_IF_ERROR(row.status());
  return jobs;
}

Result<std::vector<TraceJob>> ReadPhilly(std::string_view text, std::string_view source) {
  ASSIGN_OR_RETURN(CsvReader row,
                   CsvReader::Open(text, source, {"timestamp", "duration", "num_gpus", "cluster"}));
  std::vector<TraceJob> jobs;
  while (row.Next()) {
    TraceJob job;
    job.name = "job-" + std::to_string(jobs.size() + 1);
    job.tenant = std::string(row.Field(3));
    const auto arrival = ParseTimestamp(row.Field(0), ' ');
    if (!arrival) {
      return row.Refuse(
          0, "'" + Printable(row.Field(0), 40) + "' is not a time such as 2017-10-09 07:01:55");
    }
    job.arrival_ms = job.clock_ms = *arrival * 1'000;
    ASSIGN_OR_RETURN(job.duration_ms, row.Thousandths(1, kMaxJobSeconds * 1'000));
    ASSIGN_OR_RETURN(const int64_t gpus, row.Whole(2, 1, kMaxJobGpus));
    if (gpus > 8 && gpus % 4 != 0) {
      return row.Refuse(2, std::to_string(gpus) + " GPUs are no multiple of 4");
    }
    const int64_t each = gpus <= 8 ? gpus : gpus % 8 == 0 ? 8 : 4;
    job.task.gpus = static_cast<uint32_t>(each);
    job.tasks = static_cast<uint32_t>(gpus / each);
    jobs.push_back(std::move(job));
  }
  RETURN_IF_ERROR(row.status());
  SortByArrival(jobs);
  return jobs;
}

Result<std::vector<TraceJob>> ReadDlrm(std::string_view text, std::string_view source) {
  ASSIGN_OR_RETURN(CsvReader row,
                   CsvReader::Open(text, source,
                                   {"instance_sn", "role", "app_name", "cpu_request", "gpu_request",
                                    "rdma_request", "memory_request", "disk_request",
                                    "max_instance_per_node", "creation_time", "deletion_time"}));
  std::vector<TraceJob> jobs;
  while (row.Next()) {
    TraceJob job;
    job.name = std::string(row.Field(0));
    job.tenant = std::string(row.Field(2));
    ASSIGN_OR_RETURN(job.task.cpu_milli, row.Thousandths(3, kMaxMilli));
    ASSIGN_OR_RETURN(const int64_t gpus, row.Whole(4, 0, spec::kMaxDevices));
    if ((row.Field(1) == "CN") != (gpus == 0)) {
      return row.Refuse(4, "the role " + Printable(row.Field(1), 20) + " has " +
                               std::to_string(gpus) + " GPUs: CN has none, HN at least one");
    }
    job.task.gpus = static_cast<uint32_t>(gpus);
    ASSIGN_OR_RETURN(job.task.counted["rdma"], row.Whole(5, 0, 10'000));
    ASSIGN_OR_RETURN(const int64_t memory, row.Thousandths(6, kMaxMilli));
    job.task.memory_mib = memory * 1'024 / 1'000;
    ASSIGN_OR_RETURN(const int64_t disk, row.Thousandths(7, kMaxMilli));
    job.task.counted["disk_gib"] = (disk + 999) / 1'000;
    ASSIGN_OR_RETURN(const int64_t most, row.Whole(8, -1, 1'000'000));
    if (most == 0) return row.Refuse(8, "at most 0 a node can't be placed; -1 is no limit");
    job.most_per_node = most < 0 ? 0 : static_cast<uint32_t>(most);
    RETURN_IF_ERROR(ReadLife(row, 9, 10, job));
    jobs.push_back(std::move(job));
  }
  RETURN_IF_ERROR(row.status());
  SortByArrival(jobs);
  return jobs;
}

}  // namespace longhaul::scheduler
