#include "engines/kubernetes/protocol/traffic.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace longhaul::engines::kubernetes {

std::string_view ToString(TrafficClass traffic) {
  switch (traffic) {
    case TrafficClass::kBind:
      return "binds and deletions";
    case TrafficClass::kLease:
      return "leases";
    case TrafficClass::kStatus:
      return "status updates";
    case TrafficClass::kEvent:
      return "events";
  }
  return "unknown";
}

TrafficQueues::TrafficQueues(const TrafficSettings& settings) {
  for (size_t i = 0; i < kTrafficClasses; ++i) {
    const TrafficLimit& limit = settings.limits[i];
    CHECK(limit.requests_per_second > 0 && limit.burst >= 1 && limit.in_progress >= 1 &&
          limit.queued >= 1)
        << "limits of " << ToString(static_cast<TrafficClass>(i));
    queues_[i].limit = limit;
    queues_[i].tokens = limit.burst;
  }
}

Status TrafficQueues::Add(TrafficClass traffic, uint64_t request) {
  Queue& queue = Of(traffic);
  if (queue.queue.size() >= queue.limit.queued) {
    return ResourceExhausted("the queue of " + std::string(ToString(traffic)) + " is full: " +
                             WithThousands(static_cast<int64_t>(queue.limit.queued)) + " requests");
  }
  queue.queue.push_back(request);
  return Status();
}

void TrafficQueues::AddAgain(TrafficClass traffic, uint64_t request) {
  Of(traffic).queue.push_front(request);
}

bool TrafficQueues::Remove(TrafficClass traffic, uint64_t request) {
  std::deque<uint64_t>& queue = Of(traffic).queue;
  const auto found = std::find(queue.begin(), queue.end(), request);
  if (found == queue.end()) return false;
  queue.erase(found);
  return true;
}

double TrafficQueues::TokensAt(const Queue& queue, Instant now) {
  if (!queue.filled_at) return queue.limit.burst;
  // A clock that goes back adds nothing.
  const double elapsed = std::max(0.0, ToSeconds(now - *queue.filled_at));
  return std::min(queue.limit.burst, queue.tokens + elapsed * queue.limit.requests_per_second);
}

std::optional<uint64_t> TrafficQueues::Take(Instant now) {
  for (Queue& queue : queues_) {
    if (queue.queue.empty() || queue.in_progress >= queue.limit.in_progress) continue;
    if (now < queue.paused_until) continue;
    const double tokens = TokensAt(queue, now);
    if (tokens < 1) continue;
    queue.tokens = tokens - 1;
    // The tokens are brought up to date when one is taken, so an idle queue costs nothing.
    queue.filled_at = now;
    ++queue.in_progress;
    const uint64_t request = queue.queue.front();
    queue.queue.pop_front();
    return request;
  }
  return std::nullopt;
}

void TrafficQueues::Finished(TrafficClass traffic) {
  Queue& queue = Of(traffic);
  CHECK(queue.in_progress > 0) << "no request of " << ToString(traffic) << " is in progress";
  --queue.in_progress;
}

void TrafficQueues::Pause(TrafficClass traffic, Instant until) {
  Queue& queue = Of(traffic);
  // Two responses may carry different delays: the longer one counts.
  queue.paused_until = std::max(queue.paused_until, until);
}

std::optional<Instant> TrafficQueues::NextAt(Instant now) const {
  std::optional<Instant> next;
  for (const Queue& queue : queues_) {
    if (queue.queue.empty() || queue.in_progress >= queue.limit.in_progress) continue;
    const double missing = std::max(0.0, 1 - TokensAt(queue, now));
    // A nanosecond more, so that the token is complete by then.
    const Duration wait = missing > 0
                              ? DurationFromSeconds(missing / queue.limit.requests_per_second) +
                                    std::chrono::nanoseconds(1)
                              : Duration::zero();
    // A queue without room for requests in progress was skipped above: Finished makes the caller
    // look again, not the time.
    const Instant at = std::max(now + wait, queue.paused_until);
    next = next ? std::min(*next, at) : at;
  }
  return next;
}

size_t TrafficQueues::room(TrafficClass traffic) const {
  const Queue& queue = Of(traffic);
  return queue.limit.queued - std::min(queue.limit.queued, queue.queue.size());
}

}  // namespace longhaul::engines::kubernetes
