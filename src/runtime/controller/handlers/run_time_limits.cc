#include "runtime/controller/handlers/run_time_limits.h"

#include <algorithm>

#include "base/text.h"
#include "base/time.h"
#include "runtime/controller/handlers/job_closer.h"
#include "runtime/controller/placement.h"
#include "runtime/scheduling/queue_rules.h"

namespace longhaul::runtime::controller {

void RunTimeLimits::Watch(const JobRecord& job) {
  const spec::QueueSpec* queue =
      scheduling::RunTimeQueueOf(context_.scheduler.configuration(), job.spec());
  if (queue == nullptr) return context_.deadlines.Clear(DeadlineKind::kRunTime, job.id());
  // The time of earlier placements counts, so the deadline comes sooner after a preemption.
  const Duration left = queue->max_run_time - job.placement.held(context_.now);
  context_.deadlines.Set(DeadlineKind::kRunTime, job.id(),
                         context_.now + std::max(left, Duration(0)));
}

void RunTimeLimits::WatchAll() {
  for (auto& [id, job] : context_.jobs.all()) {
    if (!job.live() || job.closing()) continue;
    if (!job.group.empty()) {
      Watch(job);
    } else if (IsOver(job)) {
      OnOverdue(job);
    }
  }
}

bool RunTimeLimits::IsOver(const JobRecord& job) const {
  const spec::QueueSpec* queue =
      scheduling::RunTimeQueueOf(context_.scheduler.configuration(), job.spec());
  return queue != nullptr && job.placement.held(context_.now) >= queue->max_run_time;
}

// The limit is checked again here: the configuration may have changed since the deadline was set.
void RunTimeLimits::OnOverdue(JobRecord& job) {
  if (job.closing() || job.life.state() == proto::STOPPING || !IsOver(job)) return;
  const std::string reason = ReasonFor(job);
  if (job.group.empty()) return closer_.BeginClosing(job, proto::STOPPED, reason);
  placement_.BeginEnding(job, reason);
}

std::string RunTimeLimits::ReasonFor(const JobRecord& job) const {
  const spec::QueueSpec& queue =
      *scheduling::RunTimeQueueOf(context_.scheduler.configuration(), job.spec());
  return "it has run for " + ToString(queue.max_run_time) + ", the longest that queue '" +
         queue.name + "' allows (max_run_time)";
}

}  // namespace longhaul::runtime::controller
