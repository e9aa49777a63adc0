// In which dimension of quotas the accelerators of a device model count.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "spec/cluster/topology.h"
#include "spec/queue/queue.h"

namespace longhaul::scheduler::internal {

class ModelDimensions {
 public:
  // `models`: share::QueueTree::models(). Those that the topology does not have count nowhere.
  ModelDimensions(const spec::Topology& topology, const std::vector<std::string>& models);

  // 0: the model has no quotas of its own. Requires model < spec::kMaxDeviceModels.
  size_t Of(uint16_t model) const { return of_model_[model]; }
  // What a node of this kind adds to the cluster.
  spec::SharedAmounts CapacityOf(const spec::NodeKind& kind) const;

 private:
  std::array<uint8_t, spec::kMaxDeviceModels> of_model_{};
};

// Returns kInvalidArgument for a queue with quotas of a model that no node has, with the nearest
// name.
Status CheckModels(const std::vector<spec::QueueSpec>& queues, const spec::Topology& topology);

}  // namespace longhaul::scheduler::internal
