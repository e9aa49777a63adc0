// Which events of pods are written, for `kubectl describe pod`: Scheduled, FailedScheduling and
// Preempted.
//
// A single pod has its own events, like those of the stock scheduler. A gang has one for all its
// pods, at the first pod that it concerns, because one for each of thousands of pods would cost
// thousands of calls. Why pods wait is reported once for each unit and reason, and repeated after
// times that double: as a series of the same event, up to `kLongestPeriod`, which keeps it from
// expiring at the API server after an hour. Two messages that differ in numbers only are one
// reason: "11 fit" and "12 fit". The pod's condition has the present numbers.
//
// Pure: time is an argument.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "engines/kubernetes/scheduling/pod_actions.h"
#include "engines/kubernetes/scheduling/pod_record.h"
#include "engines/kubernetes/scheduling/pod_table.h"

namespace longhaul::engines::kubernetes {

class PodEvents {
 public:
  static constexpr size_t kMostSeries = 4;  // of one unit; the oldest one is forgotten first
  static constexpr Duration kLongestPeriod = std::chrono::minutes(32);

  explicit PodEvents(Duration first_period) : first_period_(first_period) {}

  // All members of the unit are bound. Reports those that are new. Requires that they are known.
  void OnBound(PodUnit& unit, const PodTable& pods);
  // The pod of the unit waits, for the reason in `message`.
  void OnWait(const PodUnit& unit, const PodName& pod, const std::string& message, Instant now);
  // The pod of the unit has been removed for the unit of the key `by`.
  void OnPreempted(PodUnit& unit, const PodName& pod, const std::string& by);
  void OnPodGone(const std::string& unit, const PodName& pod);
  // The event was not written: the next one of its series is a new event.
  void OnLost(const RecordPodEvent& event);

  // Moves what is to be written to the end of `actions`.
  void Take(std::vector<PodAction>& actions);

 private:
  struct Series {
    PodName pod;
    std::string reason;  // the message without its numbers
    std::string identity;
    int32_t count = 1;
    Duration period{};
    Instant next{};
  };

  const Duration first_period_;
  std::map<std::string, std::vector<Series>> series_;  // by unit, the oldest first
  std::vector<RecordPodEvent> unsent_;
};

}  // namespace longhaul::engines::kubernetes
