#include "engines/kubernetes/scheduling/wait_message.h"

#include "engines/kubernetes/scheduling/pod_scheduler.h"

namespace longhaul::engines::kubernetes {

std::string WaitMessage(const PodRecord& pod, const PodUnit& unit, const PodTable& pods,
                        const PodRequests& requests, const scheduler::Scheduler* scheduler) {
  if (!pod.refusal.empty()) return "Longhaul cannot schedule the pod: " + pod.refusal + ".";
  if (pod.gated) return "The pod has scheduling gates.";
  if (!pod.volume_wait.empty()) return "It waits: " + pod.volume_wait + ".";
  if (!unit.refusal.empty()) return "Longhaul cannot place it: " + unit.refusal + ".";
  if (scheduler == nullptr) return "The cluster has no nodes.";
  switch (unit.stage) {
    case PodUnit::Stage::kPlaced:
      if (!pod.making.empty()) return "It has a node, and waits: " + pod.making + ".";
      return unit.after.empty() ? "Its binding is on its way."
                                : "It has a node, which others have to leave first.";
    case PodUnit::Stage::kLeaving:
      return "Earlier pods of its group are leaving their nodes.";
    case PodUnit::Stage::kWaiting: {
      const std::string why = scheduler->WaitText(unit.job);
      return why.empty() ? "It waits for the next round of decisions." : "It waits: " + why + ".";
    }
    case PodUnit::Stage::kIdle:
      break;
  }
  if (!requests.GroupIsKnown(unit)) {
    return "Its PodGroup " + unit.group.substr(unit.group.find(':') + 1) +
           " does not exist, and the pod has no annotation " + std::string(kMinMemberAnnotation) +
           ".";
  }
  size_t present = 0;
  const PodRecord* held = nullptr;
  for (const std::string& key : unit.pods) {
    const PodRecord& record = *pods.FindKey(key);
    const bool waits = !record.volume_wait.empty();
    if (waits && held == nullptr) held = &record;
    present += !record.gated && !record.deleting && record.refusal.empty() && !waits ? 1 : 0;
  }
  const auto least = static_cast<size_t>(requests.LeastOf(unit));
  if (present < least && held != nullptr) {
    return "It waits for pod " + held->name.name + " of its group: " + held->volume_wait + ".";
  }
  if (present < least) {
    return "Its group has " + std::to_string(present) + " of the " + std::to_string(least) +
           " pods that start together.";
  }
  for (const std::string& key : unit.pods) {
    const std::string& why = pods.FindKey(key)->refused_because;
    if (!why.empty()) return "It could not be bound, and this is tried again: " + why + ".";
  }
  return "An earlier start failed, and the next one is due soon.";
}

}  // namespace longhaul::engines::kubernetes
