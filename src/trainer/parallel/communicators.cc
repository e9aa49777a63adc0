#include "trainer/parallel/communicators.h"

namespace longhaul::trainer {

Result<std::unique_ptr<Communicators>> Communicators::Create(Group& world, const Mesh& mesh) {
  std::unique_ptr<Communicators> groups(new Communicators(world, mesh));
  // In this order on every rank: the first to come to a group waits for the others.
  RETURN_IF_ERROR(groups->Find("data", mesh.DataRanks(), groups->data_));
  RETURN_IF_ERROR(groups->Find("tensor", mesh.TensorRanks(), groups->tensor_));
  RETURN_IF_ERROR(groups->Find("pipeline", mesh.PipelineRanks(), groups->pipeline_));
  RETURN_IF_ERROR(groups->Find("replica", mesh.ReplicaRanks(), groups->replica_));
  return groups;
}

// Axes with the same ranks share one group, with the name of the first. All ranks decide the same,
// because the sizes of the mesh are the same on each: Split needs all ranks of a group.
Status Communicators::Find(const char* name, const std::vector<int>& ranks, Group*& found) {
  if (ranks.size() > 1) {
    if (ranks == world_.ranks()) {
      if (world_.name() == "world") world_.Rename(name);
      found = &world_;
    }
    for (const auto& group : owned_) {
      if (group->ranks() == ranks) found = group.get();
    }
    if (found != nullptr) return {};
  }
  ASSIGN_OR_RETURN(auto group, world_.Split(name, ranks));
  found = group.get();
  owned_.push_back(std::move(group));
  return {};
}

void Communicators::Watch(MessageObserver* observer) {
  world_.Watch(observer);
  for (const auto& group : owned_) group->Watch(observer);
}

}  // namespace longhaul::trainer
