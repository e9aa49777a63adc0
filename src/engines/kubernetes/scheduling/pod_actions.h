// What the scheduler of pods asks of the API server.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "engines/kubernetes/protocol/objects/object_meta.h"

namespace longhaul::engines::kubernetes {

// One pod, not any other of its name.
struct PodName {
  std::string namespace_name;
  std::string name;
  std::string uid;

  std::string Key() const { return namespace_name + "/" + name; }
  friend auto operator<=>(const PodName&, const PodName&) = default;
};

// Answered by PodScheduler::OnBind.
struct BindPod {
  PodName pod;
  std::string node;
  Labels annotations;
};
// Answered by PodScheduler::OnRemove, and by the pod's end in the watch.
struct RemovePod {
  PodName pod;
  bool evict = true;  // through the eviction interface, within disruption budgets; else a deletion
  std::string why;
};
// Write the node into a claim, for which its volume is made then: PodScheduler::OnSelectNode.
struct SelectNode {
  std::string namespace_name;
  std::string claim;
  std::string uid;
  std::string version;  // another one is a conflict
  std::string node;

  std::string Key() const { return namespace_name + "/" + claim; }
};
// Read the pod: PodScheduler::OnRead or OnPodGone.
struct ReadPodAgain {
  PodName pod;
};
// Write into the pod's condition PodScheduled why it is not bound. No answer is expected.
struct ReportWait {
  PodName pod;
  std::string message;
};
// Write an event of the pod, which is less important than everything else: it may be dropped.
// PodScheduler::OnEventLost is the answer when it was dropped or refused.
struct RecordPodEvent {
  enum class Reason : uint8_t { kScheduled, kFailedScheduling, kPreempted };
  PodName pod;
  Reason reason = Reason::kScheduled;
  std::string note;
  // What the event's name is made of: equal ones are one event.
  std::string identity;
  int32_t count = 1;  // from 2 on the event exists, and continues as a series
  std::string unit;   // whose series it is; empty: of none
};
using PodAction =
    std::variant<BindPod, RemovePod, SelectNode, ReadPodAgain, ReportWait, RecordPodEvent>;

}  // namespace longhaul::engines::kubernetes
