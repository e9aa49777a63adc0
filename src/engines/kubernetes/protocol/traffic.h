// Limits how many requests of each class are sent, and in which order.
//
// Each class has a token bucket (rate and burst), a limit of requests in progress and a bounded
// queue of its own, so that no class can delay another one: a stock scheduler's single limiter lets
// status updates starve binds (kubernetes #135900). Where several classes may send, the more
// important one goes first. Pure: the time is an argument.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "base/time.h"

namespace longhaul::engines::kubernetes {

// In the order of importance.
enum class TrafficClass { kBind, kLease, kStatus, kEvent };  // kBind: binds, deletes, evictions
constexpr size_t kTrafficClasses = 4;
std::string_view ToString(TrafficClass traffic);

struct TrafficLimit {
  double requests_per_second = 0;
  double burst = 1;
  size_t in_progress = 1;
  size_t queued = 1;
};

struct TrafficSettings {
  std::array<TrafficLimit, kTrafficClasses> limits = {{
      // 16 connections reached the highest rate of binds on the reference machine, about 2,400 a
      // second. A gang of several thousand ranks fits into the queue.
      {.requests_per_second = 5'000, .burst = 5'000, .in_progress = 16, .queued = 20'000},
      // A lease is renewed every two seconds.
      {.requests_per_second = 10, .burst = 10, .in_progress = 2, .queued = 16},
      {.requests_per_second = 200, .burst = 400, .in_progress = 4, .queued = 10'000},
      {.requests_per_second = 20, .burst = 50, .in_progress = 1, .queued = 1'000},
  }};
};

class TrafficQueues {
 public:
  // Requires that every limit is at least 1.
  explicit TrafficQueues(const TrafficSettings& settings);

  // Queues a request. Returns kResourceExhausted when the queue of its class is full: the caller
  // must stop producing work of this class until room() is above 0.
  Status Add(TrafficClass traffic, uint64_t request);
  // Queues a request that was sent before and is repeated: ahead of the others and without a limit,
  // because it was counted by Add.
  void AddAgain(TrafficClass traffic, uint64_t request);
  // Removes a queued request. Returns false when it is not queued.
  bool Remove(TrafficClass traffic, uint64_t request);

  // The next request that may be sent now; its class counts it as in progress until Finished.
  std::optional<uint64_t> Take(Instant now);
  void Finished(TrafficClass traffic);

  // Sends nothing of this class before `until`: the server has requested it (Retry-After).
  void Pause(TrafficClass traffic, Instant until);

  // When Take may return a request again, if nothing else changes; nothing when no request waits
  // for time to pass.
  std::optional<Instant> NextAt(Instant now) const;

  size_t room(TrafficClass traffic) const;
  size_t queued(TrafficClass traffic) const { return Of(traffic).queue.size(); }
  size_t in_progress(TrafficClass traffic) const { return Of(traffic).in_progress; }

 private:
  struct Queue {
    TrafficLimit limit;
    std::deque<uint64_t> queue;
    size_t in_progress = 0;
    double tokens = 0;
    std::optional<Instant> filled_at;  // none: never used, and full
    Instant paused_until;
  };
  Queue& Of(TrafficClass traffic) { return queues_[static_cast<size_t>(traffic)]; }
  const Queue& Of(TrafficClass traffic) const { return queues_[static_cast<size_t>(traffic)]; }
  static double TokensAt(const Queue& queue, Instant now);

  std::array<Queue, kTrafficClasses> queues_;
};

}  // namespace longhaul::engines::kubernetes
