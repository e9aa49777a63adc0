#include "scheduler/internal/model_dimensions.h"

#include "base/text.h"

namespace longhaul::scheduler::internal {

namespace {

constexpr int64_t kWholeAccelerator = 1000;

}  // namespace

ModelDimensions::ModelDimensions(const spec::Topology& topology,
                                 const std::vector<std::string>& models) {
  for (size_t i = 0; i < models.size(); ++i) {
    const auto model = topology.FindModel(models[i]);
    if (model) of_model_[*model] = static_cast<uint8_t>(spec::kSharedResources + i);
  }
}

spec::SharedAmounts ModelDimensions::CapacityOf(const spec::NodeKind& kind) const {
  const int64_t accelerators = static_cast<int64_t>(kind.devices.size()) * kWholeAccelerator;
  spec::SharedAmounts capacity{{accelerators, kind.cpu_milli, kind.memory_mib}};
  const size_t dimension = kind.devices.empty() ? 0 : Of(kind.model);
  if (dimension != 0) capacity[dimension] = accelerators;
  return capacity;
}

Status CheckModels(const std::vector<spec::QueueSpec>& queues, const spec::Topology& topology) {
  std::vector<std::string_view> known;
  for (const auto& model : topology.models()) known.push_back(model.name);
  for (const spec::QueueSpec& queue : queues) {
    for (const spec::ModelQuota& quota : queue.models) {
      if (topology.FindModel(quota.model)) continue;
      const auto nearest = Nearest(quota.model, known);
      return InvalidArgument("queue '" + queue.name + "' has a quota of device model '" +
                             Printable(quota.model, 64) + "', which no node has" +
                             (nearest ? ": did you mean '" + std::string(*nearest) + "'?" : ""));
    }
  }
  return {};
}

}  // namespace longhaul::scheduler::internal
