#include "service/agent/activity/activity.h"

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace longhaul::service {
namespace {

// What threads that only wait use: see the head of the header. The kernel counts processor time in
// ticks of 10 ms, so that little of it says nothing about a rate.
struct Noise {
  double per_second;
  double least;
};
constexpr Noise kNanoseconds{1e7, 1e7};
constexpr Noise kBytes{64 * 1024, 32 * 1024};
constexpr Noise kSwitches{1'000, 200};

bool IsAbove(const Noise& noise, double used, double seconds) {
  return used > std::max(noise.least, noise.per_second * seconds);
}

bool UsedMore(const ActivitySample& now, const ActivitySample& before, Duration elapsed) {
  const double seconds = ToSeconds(elapsed);
  return IsAbove(kNanoseconds, static_cast<double>(now.cpu_ns - before.cpu_ns), seconds) ||
         IsAbove(kBytes, static_cast<double>(now.io_bytes - before.io_bytes), seconds) ||
         IsAbove(kBytes, static_cast<double>(now.network_bytes - before.network_bytes), seconds) ||
         IsAbove(kSwitches, static_cast<double>(now.switches - before.switches), seconds);
}

constexpr Duration kLongestPeriod = std::chrono::seconds(10);
constexpr Duration kShortestPeriod = std::chrono::milliseconds(100);

}  // namespace

Duration ActivityPeriod(const ActivityLimits& limits) {
  return std::clamp(std::min(limits.stopped, limits.idle) / 4, kShortestPeriod, kLongestPeriod);
}

Activity::Activity(ActivityLimits limits, Duration period, Instant now)
    : limits_(limits), period_(period), at_(now), base_at_(now) {}

bool Activity::IsActive(const ActivitySample& sample, Instant now) const {
  const ActivitySample& before = *last_;
  const Duration elapsed = now - at_;
  if (elapsed < Duration(0) || sample.debugged || sample.disk_wait) return true;
  if (sample.output_bytes != before.output_bytes || sample.processes != before.processes) {
    return true;
  }
  // A sum is smaller than before when a process has ended and another one has begun.
  if (sample.cpu_ns < before.cpu_ns || sample.io_bytes < before.io_bytes ||
      sample.network_bytes < before.network_bytes || sample.switches < before.switches) {
    return true;
  }
  // Since the last sample, or little by little since it was last active.
  return UsedMore(sample, before, elapsed) || UsedMore(sample, base_, now - base_at_);
}

std::string Activity::Evidence(const ActivitySample& sample) const {
  const auto text = [](uint64_t now, uint64_t before) {
    return ToString(Bytes(static_cast<int64_t>(now - before)));
  };
  return "no output, " + ToString(Duration(sample.cpu_ns - base_.cpu_ns)) + " of processor time, " +
         text(sample.io_bytes, base_.io_bytes) + " of I/O, " +
         text(sample.network_bytes, base_.network_bytes) + " of network traffic and " +
         std::to_string(sample.switches - base_.switches) + " context switches in " +
         ToString(idle_);
}

std::optional<Activity::Report> Activity::Take(const ActivitySample& sample, Instant now) {
  const Duration elapsed = now - at_;
  const Duration counted = std::clamp(elapsed, Duration(0), 2 * period_);
  const bool active = !last_.has_value() || IsActive(sample, now);
  // The time before the first sample in which it was seen stopped is not known.
  const bool was_stopped = last_.has_value() && last_->stopped;
  const bool stopped = sample.stopped && !sample.debugged;
  stopped_ = stopped && was_stopped ? stopped_ + counted : Duration(0);
  idle_ = active ? Duration(0) : idle_ + counted;
  if (active) {
    base_ = sample;
    base_at_ = now;
  }
  at_ = now;
  last_ = sample;
  last_->stopped = stopped;

  Report report;
  if (idle_ >= limits_.idle) report.idle = idle_;
  if (stopped_ >= limits_.stopped) report.stopped = stopped_;
  if (report.idle <= Duration(0) && report.stopped <= Duration(0)) {
    return std::exchange(reported_, false) ? std::optional(report) : std::nullopt;
  }
  reported_ = true;
  report.evidence = Evidence(sample);
  return report;
}

}  // namespace longhaul::service
