#include "scheduler/workload/trace_requests.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>

#include "base/text.h"
#include "scheduler/internal/slot_tables.h"

namespace longhaul::scheduler::workload {
namespace {

Duration Seen(Duration truth, Foresight foresight) {
  const Duration least = std::chrono::seconds(1);
  switch (foresight) {
    case Foresight::kDouble:
      return std::max(least, truth * 2);
    case Foresight::kHalf:
      return std::max(least, truth / 2);
    case Foresight::kTrue:
    case Foresight::kHistory:
    case Foresight::kLimit:
      break;
  }
  return std::max(least, truth);
}

}  // namespace

Instant ArrivalOf(const TraceJob& job) {
  return InstantFromNanoseconds((job.clock_ms > 0 ? job.clock_ms : job.arrival_ms) * 1'000'000);
}

Duration LengthOf(const TraceJob& job) {
  const Duration forever = std::chrono::hours(24 * 365);
  return job.duration_ms ? std::min<Duration>(std::chrono::milliseconds(*job.duration_ms), forever)
                         : forever;
}

std::vector<spec::QueueSpec> QueuesOf(const std::vector<TraceJob>& jobs, int64_t cluster_gpus) {
  std::map<std::string, double> gpu_seconds;
  double sum = 0;
  for (const TraceJob& job : jobs) {
    const double gpus = job.task.gpus + static_cast<double>(job.task.share_milli) / kWholeGpu;
    const double used = ToSeconds(LengthOf(job)) * gpus * job.tasks;
    gpu_seconds[job.tenant] += used;
    sum += used;
  }
  std::vector<spec::QueueSpec> queues;
  for (const auto& [tenant, used] : gpu_seconds) {
    if (tenant.empty()) continue;
    spec::QueueSpec& queue = queues.emplace_back();
    queue.name = tenant;
    const double gpus = sum > 0 ? static_cast<double>(cluster_gpus) * used / sum : 0;
    queue.guarantee[0] = static_cast<int64_t>(gpus) * 1000;
  }
  return queues;
}

Result<std::vector<TraceJob>> OfMonth(const std::vector<TraceJob>& jobs, std::string_view month) {
  const Result<uint64_t> year = ParseUint64(month.substr(0, std::min<size_t>(4, month.size())));
  const Result<uint64_t> number =
      month.size() == 7 ? ParseUint64(month.substr(5)) : Result<uint64_t>(uint64_t{0});
  if (!year.ok() || !number.ok() || month.size() != 7 || month[4] != '-' || *year < 1970 ||
      *number < 1 || *number > 12) {
    return InvalidArgument("month '" + Printable(month, 40) + "' is not one such as 2017-10");
  }
  const auto first = std::chrono::year(static_cast<int>(*year)) /
                     std::chrono::month(static_cast<unsigned>(*number)) / std::chrono::day(1);
  const auto ms_of = [](const std::chrono::year_month_day& day) {
    return std::chrono::sys_days(day).time_since_epoch().count() * int64_t{86'400'000};
  };
  std::vector<TraceJob> inside;
  for (const TraceJob& job : jobs) {
    if (job.clock_ms >= ms_of(first) && job.clock_ms < ms_of(first + std::chrono::months(1))) {
      inside.push_back(job);
    }
  }
  return inside;
}

Result<JobRequest> RequestOf(const TraceJob& job, size_t number, const spec::Topology& topology,
                             bool queues, Foresight foresight, Duration restart) {
  JobRequest request;
  request.id = JobId("job-" + std::to_string(number));
  if (queues) request.queue = job.tenant;
  request.owner = job.user.empty() ? job.tenant : job.user;
  request.restart_cost = restart;
  GroupRequest& group = request.groups.emplace_back();
  ASSIGN_OR_RETURN(group.shape, ResolveRequest(job.task, topology));
  group.minimum = group.desired = static_cast<int32_t>(job.tasks);
  group.max_per_host = static_cast<int32_t>(job.most_per_node);
  if (foresight == Foresight::kLimit) {
    if (job.limit_ms) request.limit = std::chrono::milliseconds(*job.limit_ms);
  } else if (foresight != Foresight::kHistory) {
    request.limit = Seen(LengthOf(job), foresight);
  }
  return request;
}

}  // namespace longhaul::scheduler::workload
