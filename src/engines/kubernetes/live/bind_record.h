// What one watch has reported about the pods of a load: when each appeared and when it was bound.
//
// Pure: the times are arguments. It also shows whether a scheduler did its work: a scheduler that
// puts too many pods on a node or binds half of a gang is fast and wrong.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace longhaul::engines::kubernetes {

struct BindFigures {
  int bound = 0;
  // Of the events, not of the requests. Nothing before the first bind.
  std::optional<Instant> first_bind_at;
  std::optional<Instant> last_bind_at;
  // From the pod's first event to the event that reports its node, by nearest rank, over the bound
  // pods; zero without any.
  Duration latency_p50{0};
  Duration latency_p99{0};
  Duration latency_max{0};
  int most_pods_on_a_node = 0;
  int partly_bound_gangs = 0;  // gangs of which some pods are bound, but not all
};

class BindRecord {
 public:
  // Requires pods >= 1.
  explicit BindRecord(int pods);

  // The watch has reported this pod; `node` is empty while it is not bound. Only the first report
  // of each kind counts. Requires 0 <= index < pods.
  void OnPod(int index, const std::string& uid, const std::string& node, Instant at);
  void OnDeleted(int index);

  int existing() const { return existing_; }
  int bound() const { return bound_; }
  // The uid of a pod that exists; empty for another one.
  const std::string& uid(int index) const { return pods_[static_cast<size_t>(index)].uid; }
  // From the first pod's appearance to the last one's; zero with less than two.
  Duration appeared_within() const;

  // With gang_size 0 the pods are in no gangs. Pods that were deleted count as well.
  BindFigures Figures(int gang_size) const;

 private:
  struct Pod {
    std::string uid;
    std::optional<Instant> appeared_at;
    std::optional<Instant> bound_at;
    std::string node;
  };

  int PartlyBoundGangs(size_t gang_size) const;

  std::vector<Pod> pods_;
  int existing_ = 0;
  int bound_ = 0;
};

}  // namespace longhaul::engines::kubernetes
