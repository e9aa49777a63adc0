#include "service/agent/activity/activity_watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "io/clock.h"
#include "runtime/hang_limits.h"
#include "service/agent/activity/process_activity.h"

namespace longhaul::service {
namespace {

// An idle worker is reported after a minute at the latest, so that a message can name it.
constexpr Duration kLatestReport = std::chrono::minutes(1);

uint64_t OutputBytes(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 ? static_cast<uint64_t>(facts.st_size) : 0;
}

}  // namespace

ActivityLimits ActivityLimitsOf(const proto::HangLimits& limits) {
  const runtime::HangSettings settings = runtime::HangSettingsOf(limits);
  return {settings.stopped, std::min({settings.no_step, settings.idle, kLatestReport})};
}

ActivityWatch::ActivityWatch(io::EventLoop& loop, std::function<void(runtime::AgentInput)> report)
    : loop_(loop), report_(std::move(report)) {}

ActivityWatch::~ActivityWatch() { loop_.Cancel(timer_); }

void ActivityWatch::Watch(const runtime::WorkerId& worker, pid_t session, const std::string& output,
                          const proto::HangLimits& limits) {
  const ActivityLimits own = ActivityLimitsOf(limits);
  const Duration period = ActivityPeriod(own);
  const Instant now = io::MonotonicNow();
  watched_.insert_or_assign(worker, Watched{session, output, period, Activity(own, period, now),
                                            Activity(own, kProbePeriod, now)});
  SetTimer();
}

void ActivityWatch::Forget(const runtime::WorkerId& worker) {
  if (watched_.erase(worker) > 0) SetTimer();
}

std::map<runtime::WorkerId, Duration> ActivityWatch::Compare(
    const std::vector<runtime::WorkerId>& workers) {
  std::set<pid_t> sessions;
  for (const runtime::WorkerId& worker : workers) {
    const auto found = watched_.find(worker);
    if (found != watched_.end()) sessions.insert(found->second.session);
  }
  std::map<pid_t, ActivitySample> samples = SampleSessions(sessions);
  const Instant now = io::MonotonicNow();
  std::map<runtime::WorkerId, Duration> idle;
  for (const runtime::WorkerId& worker : workers) {
    const auto found = watched_.find(worker);
    if (found == watched_.end()) continue;
    ActivitySample& sample = samples[found->second.session];
    if (sample.processes == 0) continue;
    sample.output_bytes = OutputBytes(found->second.output);
    found->second.compared.Take(sample, now);
    idle[worker] = found->second.compared.idle();
  }
  return idle;
}

void ActivityWatch::SetTimer() {
  loop_.Cancel(timer_);
  if (watched_.empty()) return;
  // All are sampled together, because the costly part is the pass over the machine's processes.
  Duration period = Duration::max();
  for (const auto& [worker, watched] : watched_) period = std::min(period, watched.period);
  timer_ = loop_.After(period, [this] { Look(); });
}

void ActivityWatch::Look() {
  SetTimer();
  std::set<pid_t> sessions;
  for (const auto& [worker, watched] : watched_) sessions.insert(watched.session);
  std::map<pid_t, ActivitySample> samples = SampleSessions(sessions);
  const Instant now = io::MonotonicNow();
  std::vector<runtime::WorkerQuiet> quiet;
  for (auto& [worker, watched] : watched_) {
    ActivitySample& sample = samples[watched.session];
    if (sample.processes == 0) continue;  // it has ended, which the launcher reports
    sample.output_bytes = OutputBytes(watched.output);
    const std::optional<Activity::Report> report = watched.activity.Take(sample, now);
    if (!report.has_value()) continue;
    quiet.push_back({worker, report->idle, report->stopped, report->evidence});
  }
  for (runtime::WorkerQuiet& each : quiet) report_(std::move(each));
}

}  // namespace longhaul::service
