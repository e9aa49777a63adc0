// What the scheduler of pods asks of the API server.
#pragma once

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
// Read the pod: PodScheduler::OnRead or OnPodGone.
struct ReadPodAgain {
  PodName pod;
};
// Write into the pod's condition PodScheduled why it is not bound. No answer is expected.
struct ReportWait {
  PodName pod;
  std::string message;
};
using PodAction = std::variant<BindPod, RemovePod, ReadPodAgain, ReportWait>;

}  // namespace longhaul::engines::kubernetes
